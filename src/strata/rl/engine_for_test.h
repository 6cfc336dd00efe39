// An engine over one of the tiny oracle checkpoints; used by tests only.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/optim/adamw.h"
#include "strata/rl/engine.h"
#include "strata/testing/executor.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {

inline std::filesystem::path oracle_path(const std::string& family) {
  return std::filesystem::path(STRATA_SOURCE_DIR) / "tests/testdata/oracles" / family;
}

struct TinyTrainer {
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  std::shared_ptr<runtime::Compiler> compiler;
  std::unique_ptr<Engine> engine;

  TinyTrainer(const std::string& family, const BatchShape& shape, const TrainOptions& options,
              const nn::ScanOptions& scan = {}, double lr = 1e-3,
              const sharding::PlacementOptions& placement = {}) {
    model = models::build_model(oracle_path(family));
    structure = std::make_unique<nn::Structure>(*model, scan, model->ties());
    structure->place(placement, model->sharding_rules());
    auto devices = static_cast<int>(placement.mesh.size());
    compiler = std::make_shared<runtime::Compiler>(
        testing::Executor(testing::CpuPlugin::newer, devices).client(),
        runtime::CompilerOptions{.cache_dir = {}});
    auto source = weights::open_source(oracle_path(family) / "model.safetensors");
    Engine::Setup setup;
    setup.model = model.get();
    setup.structure = structure.get();
    setup.compiler = compiler;
    setup.parameters =
        checkpoint::load_parameters(structure->manifest(), *source, compiler->client(),
                                    {.mesh = placement.mesh, .ignorable = model->ignorable()});
    setup.shape = shape;
    setup.options = options;
    optim::Groups groups(structure->manifest(), optim::default_groups());
    optim::UpdatePlan plan(optim::make_adamw(), groups,
                           optim::Schedule({.kind = "constant", .peak = lr}));
    engine = std::make_unique<Engine>(std::move(setup), std::move(plan));
  }
};

}  // namespace strata::rl
