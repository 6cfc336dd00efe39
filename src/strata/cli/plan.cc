#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/checkpoint/model_files.h"
#include "strata/cli/commands.h"
#include "strata/cli/layout.h"
#include "strata/models/registry.h"
#include "strata/rl/optimizer_config.h"
#include "strata/rl/train_programs.h"
#include "strata/runtime/memory_report.h"
#include "strata/transform/lower.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string model;
  LayoutFlags layout;
  std::string optimizer = "adamw";
  bool zero = false;
  int64_t rows = 8;
  int64_t tokens = 128;
  bool no_compile = false;
  bool json = false;
};

// A parameter or a piece of optimiser state, and what one device holds of it.
struct Row {
  std::string name;
  sharding::ParamType type;
  int64_t bytes = 0;
};

struct CompiledStep {
  runtime::MemoryReport memory;
  // Collectives by kind: how many, and the bytes of their results on one device.
  std::map<std::string, std::pair<int64_t, int64_t>> collectives;
};

struct Plan {
  std::vector<std::string> layers;
  std::string mesh;
  std::vector<Row> parameters, slots;
  std::vector<std::string> reasons;
  std::vector<CompiledStep> steps;
};

int64_t total(const std::vector<Row>& rows) {
  int64_t sum = 0;
  for (const Row& r : rows) sum += r.bytes;
  return sum;
}

optim::UpdatePlan update_plan(const Flags& flags, const nn::Structure& structure) {
  Config config =
      Config::from_text(fmt::format("[optimizer]\nname = \"{}\"\nlr = 1e-5\nzero = \"{}\"\n",
                                    flags.optimizer, flags.zero ? "slots" : "none"),
                        "strata plan");
  return rl::make_plan(rl::read_optimizer(config), structure.manifest(), structure.mesh());
}

CompiledStep compile(runtime::Compiler& compiler, const ir::Function& function) {
  auto program = compiler.compile(transform::program_text(function),
                                  runtime::request_for(function, function.name()));
  CompiledStep step{runtime::memory_report(*program), {}};
  for (const pjrt::Collective& c : program->executable().optimized_program().collectives()) {
    auto& [count, bytes] = step.collectives[c.kind];
    ++count;
    bytes += c.bytes;
  }
  return step;
}

Plan make(const Flags& flags) {
  auto model = models::build_model(checkpoint::model_path(flags.model));
  auto structure = make_structure(*model, flags.layout);
  const sharding::Mesh& mesh = structure->mesh();
  Plan out;
  out.mesh = mesh.text();
  for (const auto& p : structure->manifest().plans()) out.layers.push_back(p.text());
  out.reasons = structure->reasons();
  const auto& replicated = structure->placement().reasons;
  out.reasons.insert(out.reasons.end(), replicated.begin(), replicated.end());
  for (const sharding::Slot& s : structure->manifest().slots()) {
    out.parameters.push_back({s.name, s.type, shard_bytes(s.type, mesh, s.name)});
  }
  optim::UpdatePlan update = update_plan(flags, *structure);
  for (const optim::SlotSpec& s : update.slots()) {
    out.slots.push_back({s.name, s.type, shard_bytes(s.type, mesh, s.name)});
  }
  const sharding::Placement& placement = structure->placement();
  rl::BatchShape shape =
      rl::placed_shape(placement, {flags.rows, flags.tokens, flags.rows * flags.tokens});
  update = rl::deferred(update, placement, shape);
  rl::BatchTypes batch = rl::batch_types(placement, shape);
  out.reasons.insert(out.reasons.end(), batch.reasons.begin(), batch.reasons.end());
  if (flags.no_compile) return out;
  rl::TrainOptions options;
  options.loss = rl::LossKind::cross_entropy;
  auto compiler = open_compiler(flags.layout, mesh);
  Progress progress("plan");
  progress.update(0, 2, "compiling");
  auto gradients =
      rl::gradients_function({model.get(), structure.get()}, update, shape, options, false);
  out.steps.push_back(compile(*compiler, *gradients));
  progress.update(1, 2, "compiling");
  out.steps.push_back(compile(*compiler, *rl::update_function(update, mesh)));
  return out;
}

Json rows_json(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& r : rows) {
    list.push_back({{"name", r.name},
                    {"type", text_of(r.type)},
                    {"bytes", r.type.bytes()},
                    {"bytes_per_device", r.bytes}});
  }
  return list;
}

Json json_of(const Plan& p) {
  Json steps = Json::array();
  for (const CompiledStep& s : p.steps) {
    Json step = s.memory.json();
    step["collectives"] = Json::object();
    for (const auto& [kind, sum] : s.collectives) {
      step["collectives"][kind] = {{"count", sum.first}, {"bytes", sum.second}};
    }
    steps.push_back(std::move(step));
  }
  return {{"mesh", p.mesh},
          {"layers", p.layers},
          {"parameters", rows_json(p.parameters)},
          {"slots", rows_json(p.slots)},
          {"reasons", p.reasons},
          {"programs", std::move(steps)}};
}

void print_rows(const char* title, const std::vector<Row>& rows) {
  fmt::print("{}: {} on each device\n", title, bytes_text(static_cast<uint64_t>(total(rows))));
  size_t width = 0;
  for (const Row& r : rows) width = std::max(width, r.name.size());
  for (const Row& r : rows) {
    fmt::print("  {:{}}  {:>10}  {}\n", r.name, width, bytes_text(static_cast<uint64_t>(r.bytes)),
               text_of(r.type));
  }
}

void print(const Plan& p) {
  for (const std::string& line : p.layers) fmt::print("{}\n", line);
  fmt::print("mesh: {}\n", p.mesh.empty() ? "one device" : p.mesh);
  print_rows("parameters", p.parameters);
  print_rows("optimiser", p.slots);
  for (const std::string& reason : p.reasons) fmt::print("note: {}\n", reason);
  for (const CompiledStep& s : p.steps) {
    fmt::print("{}\n", s.memory.text());
    for (const auto& [kind, sum] : s.collectives) {
      fmt::print("  {} × {}, {}\n", sum.first, kind, bytes_text(static_cast<uint64_t>(sum.second)));
    }
  }
}

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--model", flags->model, "A model directory; its config.json is enough")
      ->required();
  app.add_option("--optimizer", flags->optimizer, "adamw, lion, sgd, adafactor or muon")
      ->capture_default_str();
  app.add_flag("--zero", flags->zero, "Split the optimiser's state over the mesh (ZeRO-1)");
  app.add_option("--rows", flags->rows, "Rows of a batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--tokens", flags->tokens, "Tokens of a row")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_flag("--no-compile", flags->no_compile, "Leave memory and collectives of the step out");
  declare_layout(app, flags->layout);
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.callback([flags] {
    Plan plan = make(*flags);
    if (flags->json) {
      fmt::print("{}\n", json_of(plan).dump());
    } else {
      print(plan);
    }
  });
}

}  // namespace

Command plan_command() {
  return {"plan", "How a model's layers, parameters and optimiser state lie over devices",
          "strata plan --model DIR --mesh fsdp=2,tensor=2\n"
          "strata plan --model DIR --mesh data=8 --optimizer muon --zero --json\n"
          "strata plan --model DIR --mesh fsdp=64 --no-compile\n",
          declare};
}

}  // namespace strata::cli
