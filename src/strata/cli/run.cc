#include "strata/cli/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/cli/exit_status.h"
#include "strata/cli/version.h"

namespace strata::cli {
namespace {

int report(int status, std::string_view text) {
  std::fflush(stdout);
  fmt::print(stderr, "strata: error: {}\n", text);
  return status;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  std::string near = nearest(word, known);
  return near.empty() ? "" : fmt::format(". Did you mean '{}'?", near);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The innermost command on the line, whose options a stray word was meant for.
const CLI::App& innermost(const CLI::App& app) {
  std::vector<CLI::App*> chosen = const_cast<CLI::App&>(app).get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.back());
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  std::string name = command.get_parent() == nullptr ? "strata" : "strata " + command.get_name();
  std::string text = error.what();
  std::vector<std::string> stray = app.remaining(true);
  if (!stray.empty()) {
    std::string word = stray.front().substr(0, stray.front().find('='));
    bool is_option = !word.empty() && word[0] == '-';
    text = fmt::format("unknown {} '{}'", is_option ? "option" : "argument", word);
    if (is_option) text += did_you_mean(word, option_names(command));
  }
  return report(kUsage, fmt::format("{}\nTry: {} --help", text, name));
}

// Output that did not reach its file (a full disk) is an error like any other.
int flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return kSuccess;
  return report(kOutOfResources, fmt::format("standard output: {}", std::strerror(errno)));
}

void declare_all(CLI::App& app, std::span<const Command> commands) {
  app.name("strata");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_line());
  app.footer("\n" + exit_status_help() + "\nstrata COMMAND --help shows a command's options.");
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    if (!command.examples.empty()) sub->footer("\nExamples:\n" + std::string(command.examples));
    command.declare(*sub);
  }
}

int parse_and_run(CLI::App& app, std::vector<std::string> arguments) {
  // CLI11 takes the words last first.
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
    return flush_output();
  } catch (const CLI::Success& asked) {
    // --help and --version.
    app.exit(asked);
    return flush_output();
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e);
  } catch (const Error& e) {
    return report(exit_status(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return report(kOutOfResources, "out of memory");
  } catch (const std::exception& e) {
    return report(kInternal, fmt::format("{} (a bug in Strata)", e.what()));
  }
}

}  // namespace

int run(const std::vector<std::string>& arguments, std::span<const Command> commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  CLI::App app("Reinforcement-learning post-training of language models on XLA.");
  if (arguments.empty()) {
    declare_all(app, commands);
    fmt::print(stderr, "{}", app.help());
    return kUsage;
  }
  const std::string& first = arguments.front();
  bool known = first[0] == '-' || std::find(names.begin(), names.end(), first) != names.end();
  if (!known) {
    return report(kUsage, fmt::format("unknown command '{}'{}\nTry: strata --help", first,
                                      did_you_mean(first, names)));
  }
  declare_all(app, commands);
  return parse_and_run(app, arguments);
}

}  // namespace strata::cli
