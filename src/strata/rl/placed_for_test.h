// The tiny qwen3 laid over a mesh, and its programs without an engine; used by tests only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/rl/engine_for_test.h"
#include "strata/transform/lower.h"

namespace strata::rl {

// The tiny qwen3 (four layers, scanned) laid over a mesh.
struct Placed {
  std::unique_ptr<models::CausalLm> model = models::build_model(oracle_path("qwen3"));
  nn::Structure structure;
  sharding::Mesh mesh;
  BatchShape shape;
  TrainOptions options;

  explicit Placed(const std::string& text)
      : structure(*model, {nn::ScanMode::automatic, 0, ops::parse_remat("dots")}, model->ties()),
        mesh(sharding::Mesh::parse(text)) {
    structure.place({.mesh = mesh}, model->sharding_rules());
    shape = placed_shape(structure.placement(), {8, 12, 96});
    options.loss = LossKind::cross_entropy;
  }

  optim::UpdatePlan whole_plan(
      std::shared_ptr<const optim::Optimizer> optimizer = optim::make_adamw()) const {
    optim::Groups groups(structure.manifest(), optim::default_groups());
    return optim::UpdatePlan(std::move(optimizer), groups, optim::Schedule({.peak = 1e-3}));
  }
  optim::UpdatePlan plan() const { return deferred(whole_plan(), structure.placement(), shape); }

  std::unique_ptr<ir::Function> micro_step(const optim::UpdatePlan& plan, bool accumulate) const {
    return gradients_function({model.get(), &structure}, plan, shape, options, accumulate);
  }

  std::shared_ptr<const runtime::Program> compile(
      const ir::Function& f, const std::string& text,
      testing::CpuPlugin plugin = testing::CpuPlugin::newer) const {
    testing::Executor executor(plugin, static_cast<int>(mesh.size()));
    runtime::Compiler compiler(executor.client(), {.cache_dir = {}});
    return compiler.compile(text, runtime::request_for(f, f.name()));
  }
  std::vector<pjrt::Collective> compiled(const ir::Function& f) const {
    return compile(f, transform::program_text(f))->executable().optimized_program().collectives();
  }

  // Bytes of the trained parameters on one device.
  int64_t parameter_bytes() const {
    int64_t bytes = 0;
    for (const sharding::Slot& s : structure.manifest().slots()) {
      bytes += shard_bytes(s.type, mesh, s.name);
    }
    return bytes;
  }
};

}  // namespace strata::rl
