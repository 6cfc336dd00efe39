// The table [optimizer] of a training configuration.
#pragma once

#include <memory>
#include <optional>

#include "strata/base/config.h"
#include "strata/optim/update.h"
#include "strata/sharding/mesh.h"

namespace strata::rl {

// Keys under [optimizer]:
//   all       name (adamw, lion, sgd, adafactor, muon), lr, weight_decay, clip_norm, max_skipped,
//             zero (none, slots), m_dtype (f32, bf16), ema_decay; schedule, warmup, stable, decay,
//             total, init_lr, end_lr
//   adamw     b1, b2, eps, eps_root, nesterov
//   lion      b1, b2
//   sgd       momentum, nesterov
//   adafactor momentum, decay_power, eps, clip_rms, parameter_scale, min_factored
//   muon      beta, steps, and for what is no matrix of a layer: b1, b2, eps, adam_lr, compat
//             (none, optax)
// They mean what the optimiser's header in room optim says; docs/optimizer.md has the formulas.
struct OptimizerConfig {
  std::shared_ptr<const optim::Optimizer> optimizer;
  optim::GroupsConfig groups = optim::default_groups();
  bool rest_rate = false;  // whether optimizer.adam_lr was given
  optim::ScheduleConfig schedule;
  double clip_norm = 0;     // 0 = off
  int64_t max_skipped = 8;  // non-finite steps in a row that end the run; 0 = none does
  // Of the weight average (optim/ema.h); nothing = none is kept.
  std::optional<double> ema_decay = {};
  bool zero_slots = false;  // split the optimiser's state over the mesh (optim/zero.h)
};

// Throws naming file:line and key; invalid_argument rl.optimizer_key for a key of another
// optimiser, rl.adam_lr for a rate that has no ratio to optimizer.lr; and what making the optimiser
// throws.
OptimizerConfig read_optimizer(Config& config);

// The plan for a model's parameters: of one with adapters these alone (optim::adapter_groups), else
// the configuration's groups. Throws rl.adam_lr where adam_lr was given and all that is trained are
// matrices. Logs its groups and, with zero_slots and a mesh that the
// manifest is laid over, what of the optimiser's state stays whole and why. Throws as
// optim::Groups, Schedule and UpdatePlan do.
optim::UpdatePlan make_plan(const OptimizerConfig& config, const sharding::Manifest& manifest,
                            const sharding::Mesh& mesh = {});

}  // namespace strata::rl
