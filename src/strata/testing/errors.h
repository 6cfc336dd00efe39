// Assertions about errors.
#pragma once

#include <functional>
#include <string_view>

#include "strata/base/error.h"

namespace strata::testing {

// Fails the running test unless `action` throws an Error with this code and id whose message
// contains `part`.
void expect_error(Code code, std::string_view id, std::string_view part,
                  const std::function<void()>& action);

}  // namespace strata::testing
