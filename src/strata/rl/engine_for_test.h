// An engine over one of the tiny oracle checkpoints; used by tests only.
#pragma once

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/optim/adamw.h"
#include "strata/optim/zero.h"
#include "strata/rl/engine.h"
#include "strata/testing/executor.h"
#include "strata/testing/random.h"
#include "strata/testing/scratch_directory.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {

inline std::filesystem::path oracle_path(const std::string& family) {
  return std::filesystem::path(STRATA_SOURCE_DIR) / "tests/testdata/oracles" / family;
}

// What a test may want otherwise.
struct TinyOptions {
  sharding::PlacementOptions placement = {};
  std::shared_ptr<const optim::Optimizer> optimizer = optim::make_adamw();
  bool zero = false;
  double ema_decay = 0;  // 0 = no weight average
  testing::CpuPlugin plugin = testing::CpuPlugin::newer;
  int64_t layers = 0;  // the first of the checkpoint's; 0 = all
  // Their fields start from small numbers drawn for each name.
  std::vector<std::shared_ptr<const nn::ModelTransform>> transforms = {};
};

struct TinyTrainer {
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  std::shared_ptr<runtime::Compiler> compiler;
  std::unique_ptr<Engine> engine;

  TinyTrainer(const std::string& family, const BatchShape& shape, const TrainOptions& options,
              const nn::ScanOptions& scan = {}, double lr = 1e-3, const TinyOptions& o = {}) {
    model = build(family, o.layers);
    for (const auto& transform : o.transforms) model->apply(*transform);
    structure = std::make_unique<nn::Structure>(*model, scan, model->ties());
    structure->place(o.placement, model->sharding_rules());
    const sharding::Mesh& mesh = structure->mesh();
    compiler = std::make_shared<runtime::Compiler>(
        testing::Executor(o.plugin, static_cast<int>(mesh.size())).client(),
        runtime::CompilerOptions{.cache_dir = {}});
    auto source = weights::open_source(oracle_path(family) / "model.safetensors");
    std::vector<std::string> ignorable = model->ignorable();
    for (int64_t i = o.layers; o.layers > 0 && i < 16; ++i) {
      ignorable.push_back("model.layers." + std::to_string(i) + ".*");
    }
    Engine::Setup setup;
    setup.model = model.get();
    setup.structure = structure.get();
    setup.compiler = compiler;
    setup.parameters = with_new_fields(checkpoint::load_parameters(
        stored(), *source, compiler->client(), {.mesh = mesh, .ignorable = ignorable}));
    setup.shape = shape;
    setup.options = options;
    bool adapters = optim::has_adapters(structure->manifest());
    optim::Groups groups(structure->manifest(),
                         adapters ? optim::adapter_groups() : optim::default_groups());
    optim::UpdatePlan plan(o.optimizer, groups, optim::Schedule({.kind = "constant", .peak = lr}));
    if (o.ema_decay > 0) plan = plan.with_average(o.ema_decay);
    if (o.zero) plan = optim::zero1(plan, optim::zero_axes(mesh), mesh).plan;
    engine = std::make_unique<Engine>(std::move(setup), std::move(plan));
  }

 private:
  static bool is_new(const sharding::Slot& slot) {
    return slot.kind == sharding::Kind::adapter ||
           slot.name.find("weight_scale") != std::string::npos;
  }

  // The part of the manifest that the oracle's file has.
  sharding::Manifest stored() const {
    const sharding::Manifest& all = structure->manifest();
    std::vector<sharding::Slot> slots;
    std::copy_if(all.slots().begin(), all.slots().end(), std::back_inserter(slots),
                 [](const sharding::Slot& s) { return !is_new(s); });
    return sharding::Manifest(std::move(slots), all.ties(), all.plans());
  }

  std::vector<runtime::Array> with_new_fields(std::vector<runtime::Array> loaded) const {
    std::vector<runtime::Array> all;
    size_t at = 0;
    for (const sharding::Slot& slot : structure->manifest().slots()) {
      if (!is_new(slot)) {
        all.push_back(std::move(loaded[at++]));
        continue;
      }
      testing::Random random(std::hash<std::string>()(slot.name));
      HostTensor host = random.tensor(DType::f32, slot.type.sizes(), 0.01, 0.02);
      auto spec = runtime::ArraySpec::sharded(slot.type, structure->mesh(), slot.name);
      all.push_back(
          runtime::Array::put(compiler->client(), spec, {host.bytes(), host.byte_size()}));
    }
    return all;
  }

  // The oracle's model, or one with only the first of its layers.
  static std::unique_ptr<models::CausalLm> build(const std::string& family, int64_t layers) {
    if (layers == 0) return models::build_model(oracle_path(family));
    Json config = read_json(oracle_path(family) / "config.json");
    config["num_hidden_layers"] = layers;
    config.erase("layer_types");
    testing::ScratchDirectory directory;
    write_file_atomically(directory / "config.json", config.dump());
    return models::build_model(directory.path());
  }
};

}  // namespace strata::rl
