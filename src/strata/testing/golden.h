// Whole-file comparison with a file under tests/testdata.
#pragma once

#include <string>
#include <string_view>

namespace strata::testing {

// Fails the running test unless `text` equals the file tests/testdata/<path>, naming the first line
// that differs. With STRATA_UPDATE_GOLDENS=1 in the environment it writes the file instead.
void expect_golden(std::string_view path, const std::string& text);

}  // namespace strata::testing
