#include "strata/weights/inspect.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/cli/commands.h"
#include "strata/pjrt/client.h"
#include "strata/pjrt/plugin.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string path;
  std::string plugin;
  bool json = false;
};

// Paths may hold bytes that are no UTF-8, which JSON cannot.
void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void inspect_weights(const Flags& flags) {
  weights::Inspection inspection = weights::inspect_path(flags.path);
  if (flags.json) {
    print_json(weights::to_json(inspection));
  } else {
    fmt::print("{}", weights::to_text(inspection));
  }
}

// What the library says of itself is printed even where it finds no device to run on.
void inspect_plugin(const Flags& flags) {
  auto plugin = pjrt::Plugin::load(flags.plugin);
  Json json = {{"plugin", plugin->report().json()}, {"client", nullptr}};
  std::string text = plugin->report().text();
  try {
    auto client = pjrt::Client::create(plugin);
    json["client"] = client->json();
    text += client->text();
  } catch (const Error& e) {
    json["client_error"] = e.what();
    flags.json ? print_json(json) : fmt::print("{}", text);
    throw;
  }
  flags.json ? print_json(json) : fmt::print("{}", text);
}

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::Option* path = app.add_option("PATH", flags->path,
                                     "A safetensors file, a Hugging Face directory or a GGUF file");
  CLI::Option* plugin =
      app.add_option("--plugin", flags->plugin,
                     "A PJRT plug-in instead: cpu, cuda, rocm, tpu, or the path of a library");
  plugin->excludes(path);
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.callback([flags, path, plugin] {
    if (path->count() + plugin->count() == 0) throw CLI::RequiredError("PATH or --plugin");
    plugin->count() > 0 ? inspect_plugin(*flags) : inspect_weights(*flags);
  });
}

}  // namespace

Command inspect_command() {
  return {"inspect", "Show what is in a weights file, a model directory or a plug-in",
          "strata inspect model.safetensors\n"
          "strata inspect DIR --json\n"
          "strata inspect --plugin cpu\n",
          declare};
}

}  // namespace strata::cli
