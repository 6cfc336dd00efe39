#include "strata/testing/errors.h"

#include <gtest/gtest.h>

namespace strata::testing {

void expect_error(Code code, std::string_view id, std::string_view part,
                  const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(name_of(e.code()), name_of(code)) << e.what();
    EXPECT_EQ(e.id(), id) << e.what();
    EXPECT_NE(e.message().find(part), std::string::npos)
        << "expected '" << part << "' in: " << e.what();
    return;
  }
  ADD_FAILURE() << "expected an error " << id;
}

}  // namespace strata::testing
