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

// One input for each slot of the manifest, laid out as it is: floats in float32 (the masters),
// integers as they are declared.
ir::Values declare_masters(ir::Function& function, const nn::Structure& structure);
// The same as nn::in_compute_type has them.
ir::Values weights_of(const nn::Structure& structure, const ir::Values& masters, DType compute);

// The inputs that follow the parameters, in order: ids, positions, segments, parents (rows,
// tokens) i32; source, labels, sequence i32 and terms f32 of the scored tokens; temperature () f32;
// batch_weight () f32.
inline constexpr size_t kBatchInputs = 10;

// How a batch lies on a mesh.
struct BatchTypes {
  // Ids, positions, segments, parents: rows over the axes of the rule "batch", or on every device.
  sharding::ParamType grid;
  // Source, labels, sequence, and terms: (scored) and (5, scored) on every device, or, where the
  // rows are in groups, (groups, scored / groups) and (5, groups, …), groups over the same axes.
  sharding::ParamType list, terms;
  std::vector<std::string> reasons;  // why rows are on every device
};

// The shape whose groups are the parts into which the mesh splits the rows, with scored tokens
// rounded up to a multiple of their number.
BatchShape placed_shape(const sharding::Placement& placement, BatchShape shape);
BatchTypes batch_types(const sharding::Placement& placement, const BatchShape& shape);

// The plan as this batch's gradients are summed: each device along the batch's leading axes that
// split no parameter (data parallelism) keeps a sum of its own until the update. Over the axes that
// split parameters too (fsdp) micro-steps sum, since a gradient is whole nowhere.
optim::UpdatePlan deferred(const optim::UpdatePlan& plan, const sharding::Placement& placement,
                           const BatchShape& shape);

// Gradients of one micro-step, summed into an accumulator (optim::flat).
//   inputs   every slot of the manifest, [accumulator: donated], the batch's inputs
//   results  accumulator, metrics (policy_metric_names(); for cross_entropy the first of them)
// The loss is a sum: the update divides by the summed batch_weight. Where the plan's sums are
// partial (deferred), forward and backward run apart on each part of the batch, and nothing but
// numbers (loss, metrics, whether all is finite) crosses these axes.
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

// The optimiser's slots at the start, made where they live instead of sent there: zeros, and the
// parameters that weight averages begin with.
//   inputs   trained parameters, where the plan keeps averages; otherwise none
std::unique_ptr<ir::Function> slots_function(const optim::UpdatePlan& plan,
                                             const sharding::Mesh& mesh = {});

// Whether all trained parameters are finite.
//   inputs   trained parameters
//   results  1 or 0: f32 of rank 0
std::unique_ptr<ir::Function> finite_function(const optim::UpdatePlan& plan,
                                              const sharding::Mesh& mesh = {});

// The weight averages laid out as the parameters that they are of.
//   inputs   the averages, which end plan.slots()
//   results  one a trained parameter
std::unique_ptr<ir::Function> average_function(const optim::UpdatePlan& plan,
                                               const sharding::Mesh& mesh = {});

// Log-probabilities and entropies of a batch's scored tokens.
//   inputs   every slot of the manifest, the batch's inputs
//   results  logprobs, entropies: f32, laid out as the batch's lists
std::unique_ptr<ir::Function> logprobs_function(const ModelView& view, const BatchShape& shape,
                                                const TrainOptions& options);

}  // namespace strata::rl
