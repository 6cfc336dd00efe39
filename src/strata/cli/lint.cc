#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"
#include "strata/checkpoint/model_files.h"
#include "strata/cli/commands.h"
#include "strata/models/registry.h"
#include "strata/nn/structure.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string model;
  bool expect_scan = false;
  bool json = false;
};

std::string layer_range(const sharding::LayerPlan& plan, const sharding::LayerRun& run) {
  int64_t last = run.first + run.layers() - 1;
  if (run.first == last) return fmt::format("{}.{}", plan.stack, last);
  return fmt::format("{}.{} to {}", plan.stack, run.first, last);
}

// Layers that no loop runs, a line for each run of them.
std::vector<std::string> unrolled(const std::vector<sharding::LayerPlan>& plans) {
  std::vector<std::string> out;
  for (const sharding::LayerPlan& plan : plans) {
    for (const sharding::LayerRun& run : plan.runs) {
      if (!run.scanned) out.push_back(layer_range(plan, run));
    }
  }
  return out;
}

void print_json(const models::CausalLm& model, const nn::Structure& structure) {
  const sharding::Manifest& manifest = structure.manifest();
  Json json = {{"model_type", model.config().model_type},
               {"plans", manifest.to_json()["plans"]},
               {"transforms", model.transforms()},
               {"adapter_elements", manifest.elements(sharding::Kind::adapter)},
               {"unrolled", unrolled(manifest.plans())},
               {"reasons", structure.reasons()}};
  fmt::print("{}\n", json.dump(2));
}

void print_text(const models::CausalLm& model, const nn::Structure& structure) {
  for (const auto& plan : structure.manifest().plans()) fmt::print("{}\n", plan.text());
  for (const std::string& reason : structure.reasons()) fmt::print("  {}\n", reason);
  for (const Json& transform : model.transforms()) fmt::print("transform {}\n", transform.dump());
  int64_t adapters = structure.manifest().elements(sharding::Kind::adapter);
  if (adapters == 0) return;
  fmt::print("adapters: {} elements beside {} frozen ones\n", adapters,
             structure.manifest().elements(sharding::Kind::param));
}

void lint(const Flags& flags) {
  auto model = models::build_model(std::filesystem::path(flags.model));
  nn::Structure structure(*model, {}, model->ties());
  flags.json ? print_json(*model, structure) : print_text(*model, structure);
  if (!flags.expect_scan) return;
  const auto& plans = structure.manifest().plans();
  std::vector<std::string> outside = unrolled(plans);
  require(!plans.empty() && outside.empty(),
          {.id = "cli.not_scanned",
           .where = flags.model,
           .expected = "every layer in a loop (--expect-scan)",
           .got = plans.empty() ? "a model without layers in a stack"
                                : "unrolled: " + join(outside, ", "),
           .cure = "The plan above says in what neighbours differ",
           .code = Code::failed_precondition});
}

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--model", flags->model, "A model directory; only its config.json is read")
      ->required();
  app.add_flag("--expect-scan", flags->expect_scan, "Fail when a layer runs outside of a loop");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.callback([flags] {
    flags->model = checkpoint::model_path(flags->model).string();
    lint(*flags);
  });
}

}  // namespace

Command lint_command() {
  return {"lint", "Show which layers of a model run as loops, and why others do not",
          "strata lint --model DIR\n"
          "strata lint --model DIR --expect-scan --json\n",
          declare};
}

}  // namespace strata::cli
