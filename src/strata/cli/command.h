// A command of `strata`. Each has a file of its own; adding one is that file and a line in
// commands.cc.
#pragma once

#include <span>
#include <string_view>

namespace CLI {
class App;
}

namespace strata::cli {

struct Command {
  std::string_view name;
  std::string_view summary;   // one line
  std::string_view examples;  // shell lines, each with its line break
  // Declares the command's options on `app` and sets its callback, which does the work. A callback
  // throws strata::Error, writes its output to stdout and everything else to stderr.
  void (*declare)(CLI::App& app);
};

// All commands in the order of --help.
std::span<const Command> all_commands();

}  // namespace strata::cli
