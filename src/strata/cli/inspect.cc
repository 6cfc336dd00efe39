#include "strata/weights/inspect.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_files.h"
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

// Parameters and optimiser slots by their names on disk, and what the run was doing.
weights::Inspection inspect_checkpoint(const std::string& path) {
  checkpoint::CheckpointFiles files(path);
  const checkpoint::CheckpointIndex& index = files.index();
  weights::Inspection out{"checkpoint", path, Json::object(), {}};
  out.metadata["step"] = index.run.step;
  out.metadata["counts"] = index.run.counts;
  out.metadata["model_parameters"] = index.model.elements(sharding::Kind::param);
  for (const auto& plan : index.model.plans()) out.metadata["layers"].push_back(plan.text());
  out.metadata["loader"] = index.run.loader;
  out.metadata["extra"] = index.run.extra;
  for (const weights::TensorView& t : files.tensors()) {
    std::filesystem::path file = files.files()[t.file].lexically_relative(path);
    out.rows.push_back(
        {t.name, std::string(name_of(t.dtype)), t.dims, t.bytes.size(), file.string()});
  }
  return out;
}

// A checkpoint is a Hugging Face directory too, so its manifest decides.
weights::Inspection inspect_any(const std::string& path) {
  std::error_code ec;
  bool manifest = std::filesystem::exists(std::filesystem::path(path) / "manifest.json", ec);
  return manifest ? inspect_checkpoint(path) : weights::inspect_path(path);
}

void inspect_weights(const Flags& flags) {
  weights::Inspection inspection = inspect_any(flags.path);
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
  CLI::Option* path =
      app.add_option("PATH", flags->path,
                     "A safetensors file, a Hugging Face directory, a checkpoint or a GGUF file");
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
