#include "strata/weights/inspect.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/cli/commands.h"
#include "strata/pjrt/client.h"
#include "strata/pjrt/plugin.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string path;
  std::string plugin;
  bool verify = false;
  bool json = false;
};

// Paths may hold bytes that are no UTF-8, which JSON cannot.
void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

// Parameters and optimiser slots by their names on disk, and what the run was doing.
weights::Inspection inspect_checkpoint(const fs::path& path, bool verify) {
  checkpoint::CheckpointFiles files(path);
  const checkpoint::CheckpointIndex& index = files.index();
  weights::Inspection out{"checkpoint", path, Json::object(), {}};
  out.metadata["step"] = index.run.step;
  if (index.run.micro_steps) out.metadata["micro_steps"] = *index.run.micro_steps;
  out.metadata["counts"] = index.run.counts;
  out.metadata["model_parameters"] = index.model.elements(sharding::Kind::param);
  out.metadata["model_hash"] = index.model.hash();
  for (const auto& plan : index.model.plans()) out.metadata["layers"].push_back(plan.text());
  for (const auto& file : index.files) out.metadata["files"][file.name] = file.sha256;
  out.metadata["loader"] = index.run.loader;
  out.metadata["extra"] = index.run.extra;
  if (verify) {
    files.verify();
    out.metadata["verified"] = true;
  }
  std::unordered_map<std::string_view, std::string_view> hashes;
  for (const auto* list : {&index.parameters, &index.slots}) {
    for (const checkpoint::TensorEntry& entry : *list) hashes[entry.name] = entry.sha256;
  }
  for (const weights::TensorView& t : files.tensors()) {
    fs::path file = files.files()[t.file].lexically_relative(path);
    out.rows.push_back({t.name, std::string(name_of(t.dtype)), t.dims, t.bytes.size(),
                        file.string(), std::string(hashes.at(t.name))});
  }
  return out;
}

// The latest checkpoint of a run, and which others there are.
weights::Inspection inspect_run(const std::vector<checkpoint::StoredCheckpoint>& all, bool verify) {
  weights::Inspection out = inspect_checkpoint(all.back().path, verify);
  for (const checkpoint::StoredCheckpoint& c : all) {
    if (!c.micro_steps) out.metadata["steps"].push_back(c.step);
  }
  return out;
}

// A checkpoint is a Hugging Face directory too, so its manifest decides.
weights::Inspection inspect_any(const fs::path& path, bool verify) {
  std::error_code ec;
  if (fs::exists(path / "manifest.json", ec)) return inspect_checkpoint(path, verify);
  if (fs::is_directory(path, ec)) {
    std::vector<checkpoint::StoredCheckpoint> all = checkpoint::find_checkpoints(path);
    if (!all.empty()) return inspect_run(all, verify);
  }
  require(!verify, {.id = "cli.verify",
                    .where = path.string(),
                    .expected = "a checkpoint, which has hashes to compare with",
                    .got = "none",
                    .cure = "Leave out --verify"});
  return weights::inspect_path(path);
}

void inspect_weights(const Flags& flags) {
  weights::Inspection inspection = inspect_any(flags.path, flags.verify);
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
                     "A safetensors file, a model directory, a checkpoint, a run or a GGUF file");
  CLI::Option* plugin =
      app.add_option("--plugin", flags->plugin,
                     "A PJRT plug-in instead: cpu, cuda, rocm, tpu, or the path of a library");
  plugin->excludes(path);
  app.add_flag("--verify", flags->verify, "Recompute the hashes of a checkpoint and compare them");
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
          "strata inspect runs/a/checkpoints/step-00000100 --verify\n"
          "strata inspect --plugin cpu\n",
          declare};
}

}  // namespace strata::cli
