#include "strata/cli/commands.h"

#include <array>

namespace strata::cli {

std::span<const Command> all_commands() {
  static const std::array kCommands = {
      convert_command(), generate_command(), score_command(), tokenize_command(),
      inspect_command(), lint_command(),     plan_command(),  import_gguf_command(),
      train_command(),   version_command(),
  };
  return kCommands;
}

}  // namespace strata::cli
