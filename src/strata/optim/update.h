// UpdatePlan: one whole optimiser step over the named tree of trained parameters. It divides the
// summed gradient by the summed weight, takes the norm, clips, and updates each parameter and its
// slots, or leaves all of them bit for bit when anything is not finite.
//
// Per parameter this is one elementwise chain that reads parameter, gradient and slots once; there
// are no temporaries of a parameter's size when old and new state share memory (donation; measured
// with the newer CPU plug-in). Updates that couple the elements of an array need some, of one
// parameter at a time.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/optim/accumulate.h"
#include "strata/optim/groups.h"
#include "strata/optim/optimizer.h"
#include "strata/optim/schedule.h"
#include "strata/sharding/mesh.h"

namespace strata::optim {

struct UpdateResult {
  // In the order and with the types of the inputs, so each can take its input's memory.
  ir::Values parameters;
  ir::Values slots;
  ir::Value loss;    // rank-0 f32: summed loss / summed weight (0 when that is 0)
  ir::Value weight;  // rank-0 f32: the summed weight
  // Rank-0 predicate: whether the step was applied; see step_counts.h. False when a norm, the loss
  // or the weight is not finite, or the weight is not > 0.
  ir::Value applied;
  // Rank-0 f32, in the order of UpdatePlan::norms(): the norms that clipping used, of the averaged
  // gradients, before clipping. 0 when the weight is 0.
  ir::Values norms;
};

// Immutable; any number of threads may read it.
class UpdatePlan {
 public:
  // `clip_norm` bounds the norm of all groups that have no clip norm of their own; infinity means
  // off. Throws invalid_argument: optim.nothing_to_train (no parameter is trained),
  // optim.clip_norm (not > 0).
  UpdatePlan(std::shared_ptr<const Optimizer> optimizer, Groups groups, Schedule schedule,
             double clip_norm = std::numeric_limits<double>::infinity());

  const Groups& groups() const { return groups_; }
  const std::vector<Parameter>& parameters() const { return groups_.parameters(); }
  // The optimiser's state, parameter by parameter, all zeros at the start; then the averages.
  const std::vector<SlotSpec>& slots() const { return slots_; }
  // The same plan that also keeps the weight average of each trained parameter (ema.h), updated
  // after the parameter: slots() then end with ema_slots(parameters()). `decay` is a scalar like
  // the others. For a plan as it was made: before another layout, partial sums or another average
  // (invariant). Throws as ema_scalars.
  UpdatePlan with_average(double decay) const;
  bool keeps_average() const { return decay_.has_value(); }
  // Where the averages begin in slots(); its end when none are kept.
  size_t first_average() const { return first_slot_.back(); }
  const Optimizer& optimizer() const { return *optimizer_; }
  // The summed gradients and what else is kept between micro-steps: accumulator_slots().
  const std::vector<SlotSpec>& accumulator() const { return accumulator_; }
  // The same plan with slots and accumulator on other mesh axes (zero.h). Throws internal
  // (optim.laid_out) when anything else differs.
  UpdatePlan with_layout(std::vector<SlotSpec> slots, std::vector<SlotSpec> accumulator) const;

  // The same plan whose summed gradients are partial ones, so that micro-steps add without any
  // device waiting for another: accumulator() then has, as the first dim of each gradient, one part
  // for each place along `axes` of `mesh`, beside the parameter's own layout. `trace` adds the
  // parts up, which is the step's only sum of arrays over these axes: into the layout that the
  // summed gradients have now (whole, or split by ZeRO). No axes, or axes of one place: no change.
  // Throws invalid_argument (optim.partial_axes) when an axis splits a trained parameter, whose
  // gradient is then no partial sum over it; not_found for one that `mesh` lacks.
  UpdatePlan with_partial_sums(const std::vector<std::string>& axes,
                               const sharding::Mesh& mesh) const;
  // The number of parts; 0 when the sums are whole.
  int64_t parts() const { return parts_; }

  // The scalar inputs of the step that follows `count` finished ones: the optimiser's own, then
  // "lr/<group>" and "weight_decay/<group>" for each group that is trained, then the clip norms:
  // "clip_norm/<group>" of groups that have their own, one "clip_norm" of all others; then those of
  // the weight average (ema_scalars), if one is kept. Names and order do not depend on `count` or
  // on any value; two plans that differ in values only trace the same program. Throws as
  // Schedule::at.
  std::vector<NamedScalar> scalars(int64_t count) const;
  // Their values, rounded once to float32. Throws out_of_range (optim.scalar_range) naming the one
  // that does not fit.
  std::vector<float> scalar_values(int64_t count) const;
  // "grad_norm/<group>" or "grad_norm", as the clip norms in scalars().
  std::vector<std::string> norms() const;

  // Traces the step. Parameters and gradients are in the order of parameters(), slots of slots(),
  // scalars (rank-0 f32) of scalars(). Gradients have the dims of accumulator() and any float type.
  // Throws invalid_argument (optim.update_inputs) naming the first input that does not fit.
  UpdateResult trace(ir::Function& function, const ir::Values& parameters, const ir::Values& slots,
                     const Sums& sums, const ir::Values& scalars) const;

 private:
  struct ClipSet {
    std::string suffix;  // "" or "/<group>"
    double limit;
  };
  // What the traced step shares between parameters.
  struct Shared;

  void assign_clips(double clip_norm);
  void check_inputs(const ir::Values& parameters, const ir::Values& slots, const Sums& sums,
                    const ir::Values& scalars) const;
  Sums whole(const Sums& sums) const;
  Shared share(ir::Function& function, const Sums& sums, const ir::Values& scalars) const;
  void update_parameter(size_t index, ir::Value gradient, const Shared& shared,
                        UpdateResult& state) const;
  ir::Value after_update(size_t index, ir::Value gradient, UpdateResult& state) const;
  void update_averages(const Shared& shared, UpdateResult& state) const;

  std::shared_ptr<const Optimizer> optimizer_;
  Groups groups_;
  Schedule schedule_;
  std::vector<SlotSpec> slots_, accumulator_;
  int64_t parts_ = 0;                                          // of each summed gradient
  std::vector<std::vector<std::vector<std::string>>> summed_;  // axes of each once it is whole
  std::optional<double> decay_;                                // of the weight average
  std::vector<size_t> first_slot_;      // of each parameter; one more at the end
  std::vector<size_t> active_;          // groups with trained parameters
  std::vector<size_t> place_of_group_;  // of each group in active_
  std::vector<size_t> clip_of_group_;   // of each group in clips_
  std::vector<ClipSet> clips_;
};

// Types of traced values for declared types.
ir::Type traced_type(const sharding::ParamType& type);

}  // namespace strata::optim
