#include "strata/cli/version.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "strata/base/json.h"
#include "strata/cli/commands.h"

namespace strata::cli {
namespace {

constexpr const char* kCompiler =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "gcc " __VERSION__;
#endif

void declare(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "Print one JSON object");
  app.callback([as_json] {
    if (*as_json) {
      Json json = {{"version", STRATA_VERSION}, {"compiler", kCompiler}};
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("{}\nbuilt with {}\n", version_line(), kCompiler);
    }
  });
}

}  // namespace

std::string version_line() { return "strata " STRATA_VERSION; }

Command version_command() {
  return {"version", "Print the version and the compiler of this build", "strata version --json\n",
          declare};
}

}  // namespace strata::cli
