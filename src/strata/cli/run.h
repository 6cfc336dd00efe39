// The command line of `strata`: finds the command, runs it, turns errors into text and statuses.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "strata/cli/command.h"

namespace strata::cli {

// Runs `arguments` (without the program's name) over `commands`. Errors are printed to stderr as
// "strata: error: …" with their context; nothing is thrown. Returns the exit status.
int run(const std::vector<std::string>& arguments, std::span<const Command> commands);

}  // namespace strata::cli
