#include "strata/checkpoint/convert.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/checkpoint/model_files.h"
#include "strata/cli/commands.h"
#include "strata/cli/interrupted.h"
#include "strata/models/registry.h"
#include "strata/nn/structure.h"
#include "strata/rl/adapters.h"
#include "strata/weights/tensor_source.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string source;
  std::string target;
  std::string to;
  int64_t axis = 0;
  std::string from;
  std::optional<int64_t> from_axis;
  bool average = false;
  bool json = false;
};

// Whether a plan has layers but stacks none: one layer, or no two alike.
bool stacks_nothing(const sharding::Manifest& model) {
  for (const sharding::LayerPlan& plan : model.plans()) {
    for (const sharding::LayerRun& run : plan.runs) {
      if (run.scanned) return false;
    }
  }
  return true;
}

sharding::Manifest manifest_of(const models::CausalLm& model, const Flags& flags) {
  nn::ScanOptions scan;
  scan.param_axis = flags.axis;
  if (flags.to == "hf") scan.mode = nn::ScanMode::off;
  nn::Structure structure(model, scan, model.ties());
  if (flags.to == "hf" || !stacks_nothing(structure.manifest())) return structure.manifest();
  scan.mode = nn::ScanMode::force;
  return nn::Structure(model, scan, model.ties()).manifest();
}

// A model with adapters becomes one without, whose weights hold what they add.
checkpoint::ConvertReport merge(const Flags& flags, const models::CausalLm& model,
                                checkpoint::ExportOptions options) {
  checkpoint::ConvertReport report;
  report.form = "one tensor a layer, adapters merged";
  options.config =
      rl::merged_config(read_json(std::filesystem::path(flags.source) / "config.json"), model);
  checkpoint::export_merged(flags.target, manifest_of(model, flags), flags.source, options,
                            model.ignorable());
  auto written = weights::open_source(flags.target);
  report.tensors = written->tensors().size();
  report.bytes = written->total_bytes();
  return report;
}

void convert(const Flags& flags) {
  auto model = models::build_model(std::filesystem::path(flags.source));
  checkpoint::ConvertOptions options;
  if (flags.to == "cycle") options.names = checkpoint::TreeNames::cycle;
  if (!flags.from.empty()) options.from.stacked = flags.from == "stacked";
  options.from.axis = flags.from_axis;
  options.ignorable = model->ignorable();
  options.average = flags.average;
  Progress progress("convert");
  InterruptFlag interrupt;
  options.progress = [&](uint64_t done, uint64_t total) {
    stop_if_raised(interrupt, flags.target);
    progress.update(static_cast<double>(done), static_cast<double>(total));
  };
  Stopwatch clock;
  checkpoint::ExportOptions merges;
  merges.merges = rl::merges_of(*model);
  merges.progress = options.progress;
  merges.average = flags.average;
  checkpoint::ConvertReport r = flags.to == "hf" && !merges.merges.empty()
                                    ? merge(flags, *model, std::move(merges))
                                    : checkpoint::convert_tree(flags.source, flags.target,
                                                               manifest_of(*model, flags), options);
  if (flags.json) {
    Json json = {{"directory", flags.target},
                 {"form", r.form},
                 {"tensors", r.tensors},
                 {"bytes", r.bytes},
                 {"seconds", clock.seconds()}};
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: {}, {} tensors, {} in {:.1f} s\n", flags.target, r.form, r.tensors,
             bytes_text(r.bytes), clock.seconds());
}

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("SRC", flags->source, "A Hugging Face directory, a checkpoint or a stacked tree")
      ->required();
  app.add_option("DST", flags->target, "The directory to make; absent or empty so far")->required();
  app.add_option("--to", flags->to,
                 "hf: one tensor a layer, adapters merged; stacked: LAYERS.LEAF; cycle: "
                 "LAYERS.layer_SLOT.LEAF")
      ->check(CLI::IsMember({"hf", "stacked", "cycle"}))
      ->required();
  app.add_option("--axis", flags->axis, "Where stacked tensors carry their layer dim; -1 = last")
      ->check(CLI::Range(-1, 8))
      ->capture_default_str();
  app.add_option("--from", flags->from, "The form that SRC must have (default: what it has)")
      ->check(CLI::IsMember({"stacked", "hf"}));
  app.add_option("--from-axis", flags->from_axis,
                 "Where SRC carries its layer dim (default: found from the shapes)");
  app.add_flag("--average", flags->average,
               "Take the weight average that SRC, a checkpoint, keeps (optimizer.ema_decay)");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.callback([flags] {
    flags->source = checkpoint::model_path(flags->source).string();
    convert(*flags);
  });
}

}  // namespace

Command convert_command() {
  return {"convert", "Rewrite a model with its layers stacked, or one by one",
          "strata convert runs/a/checkpoints/step-00000100 model --to hf\n"
          "strata convert model stacked --to stacked --axis 1\n"
          "strata convert stacked model --to hf --from-axis 1\n",
          declare};
}

}  // namespace strata::cli
