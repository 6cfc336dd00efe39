// What this build of Strata is.
#pragma once

#include <string>

namespace strata::cli {

// "strata 0.1.0".
std::string version_line();

}  // namespace strata::cli
