// What a command does whose work Ctrl-C or SIGTERM stopped.
#pragma once

#include <string>

#include "strata/base/interrupt.h"

namespace strata::cli {

// Ends the command with the error cli.interrupted (code cancelled, status 130).
[[noreturn]] void fail_interrupted(const std::string& where, const std::string& expected,
                                   const std::string& got, const std::string& cure);

// For commands that write one thing: ends this one when the flag is raised, so that what is
// half-written at `where` is removed on the way out.
void stop_if_raised(const InterruptFlag& flag, const std::string& where);

}  // namespace strata::cli
