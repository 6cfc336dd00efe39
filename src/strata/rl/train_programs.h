// The traced programs of training: gradients of a batch, the optimiser's update, and log-probs
// without gradients. Pure tracing: nothing here knows a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/models/causal_lm.h"
#include "strata/nn/structure.h"
#include "strata/optim/update.h"
#include "strata/rl/policy_loss.h"
#include "strata/rl/token_batch.h"

namespace strata::rl {

struct ModelView {
  const models::CausalLm* model = nullptr;
  const nn::Structure* structure = nullptr;
};

enum class LossKind { policy, cross_entropy };

struct TrainOptions {
  LossKind loss = LossKind::policy;
  PolicyLossOptions policy;
  DType compute = DType::f32;  // of weights and activations inside the model
  int64_t chunk = 0;  // scored tokens whose logits exist at once; 0 = see TokenScoreOptions
};

// The inputs that follow the parameters, in order: ids, positions, segments, parents (rows,
// tokens) i32; source, labels, sequence (scored) i32; terms (5, scored) f32; temperature () f32;
// batch_weight () f32.
inline constexpr size_t kBatchInputs = 10;

// The declared type of a batch's grids (ids, positions, segments, parents): rows over the axes of
// the rule "batch", or on every device, with the reason. The other inputs are on every device.
sharding::Resolved batch_type(const sharding::Placement& placement, const BatchShape& shape);

// Gradients of one micro-step, summed into an accumulator (optim::flat).
//   inputs   every slot of the manifest, [accumulator: donated], the batch's inputs
//   results  accumulator, metrics (policy_metric_names(); for cross_entropy the first of them)
// The loss is a sum: the update divides by the summed batch_weight.
std::unique_ptr<ir::Function> gradients_function(const ModelView& view,
                                                 const optim::UpdatePlan& plan,
                                                 const BatchShape& shape,
                                                 const TrainOptions& options, bool accumulate);

// One optimiser step.
//   inputs   trained parameters (donated), optimiser slots (donated), accumulator, scalars (S) f32
//   results  parameters, slots, stats f32: loss, weight, applied (0 or 1), accumulator's added and
//            skipped, then the norms of plan.norms()
std::unique_ptr<ir::Function> update_function(const optim::UpdatePlan& plan,
                                              const sharding::Mesh& mesh = {});
inline constexpr size_t kUpdateStats = 5;

// The optimiser's slots at the start: zeros, made where they live instead of sent there. No inputs.
std::unique_ptr<ir::Function> slots_function(const optim::UpdatePlan& plan,
                                             const sharding::Mesh& mesh = {});

// Log-probabilities and entropies of a batch's scored tokens.
//   inputs   every slot of the manifest, the batch's inputs
//   results  logprobs (scored) f32, entropies (scored) f32
std::unique_ptr<ir::Function> logprobs_function(const ModelView& view, const BatchShape& shape,
                                                const TrainOptions& options);

}  // namespace strata::rl
