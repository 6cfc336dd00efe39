#include "strata/cli/commands.h"

#include <array>

namespace strata::cli {

std::span<const Command> all_commands() {
  static const std::array kCommands = {
      version_command(),
  };
  return kCommands;
}

}  // namespace strata::cli
