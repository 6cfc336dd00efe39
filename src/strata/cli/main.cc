#include <string>
#include <vector>

#include "strata/cli/commands.h"
#include "strata/cli/run.h"

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return strata::cli::run(arguments, strata::cli::all_commands());
}
