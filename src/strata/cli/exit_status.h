// Exit statuses of `strata`, by class of error: the one table.
#pragma once

#include <string>

#include "strata/base/error.h"

namespace strata::cli {

// 0 is success, 2 a command line that cannot be understood; the others follow the error's code.
inline constexpr int kSuccess = 0;
inline constexpr int kInternal = 1;
inline constexpr int kUsage = 2;
inline constexpr int kOutOfResources = 7;

int exit_status(Code code);

// A line for every status and what it means, for --help.
std::string exit_status_help();

}  // namespace strata::cli
