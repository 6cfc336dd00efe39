#include "strata/optim/update.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/reduce.h"
#include "strata/optim/clip.h"
#include "strata/optim/ema.h"
#include "strata/sharding/shardy.h"

namespace strata::optim {
namespace {

using ir::Value;
using ir::Values;

constexpr size_t kNone = static_cast<size_t>(-1);

[[noreturn]] void bad_input(const std::string& where, std::string expected, std::string got) {
  fail({.id = "optim.update_inputs",
        .where = "optimiser step, " + where,
        .expected = std::move(expected),
        .got = std::move(got)});
}

void check_count(const char* what, size_t wanted, size_t given) {
  if (wanted == given) return;
  bad_input(what, fmt::format("{} of them", wanted), fmt::format("{}", given));
}

void check_type(const std::string& where, const ir::Type& wanted, const Value& given) {
  if (given && given.type() == wanted) return;
  bad_input(where, ir::text(wanted), given ? ir::text(given.type()) : "a null value");
}

void check_gradient(const std::string& name, const ir::Type& wanted, const Value& given) {
  if (given && is_float(given.dtype()) && given.dims() == wanted.dims) return;
  bad_input("gradient of " + name, "floats of dims " + ir::text(wanted),
            given ? ir::text(given.type()) : "a null value");
}

Values in_float32(std::span<const Value> values) {
  Values all;
  for (const Value& v : values) all.push_back(ops::convert(v, DType::f32));
  return all;
}

// Replaces `slots` by the next ones where `applied` is true; returns them as float32.
Values advance(const Optimizer& optimizer, const Parameter& parameter, const Optimizer::Leaf& leaf,
               Value applied, std::span<Value> slots) {
  Values next = optimizer.next_slots(parameter, leaf);
  invariant(next.size() == slots.size(), "optim.next_slots", "one new slot for each declared one");
  for (size_t i = 0; i < next.size(); ++i) {
    slots[i] = ops::select(applied, ops::convert(next[i], slots[i].dtype()), slots[i]);
  }
  return in_float32(slots);
}

bool same_but_for_axes(const std::vector<SlotSpec>& a, const std::vector<SlotSpec>& b) {
  auto same = [](const SlotSpec& x, const SlotSpec& y) {
    return x.name == y.name && x.parameter == y.parameter &&
           traced_type(x.type) == traced_type(y.type);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

ir::Type traced_type(const sharding::ParamType& type) { return {type.dtype, type.sizes()}; }

UpdatePlan::UpdatePlan(std::shared_ptr<const Optimizer> optimizer, Groups groups, Schedule schedule,
                       double clip_norm)
    : optimizer_(std::move(optimizer)),
      groups_(std::move(groups)),
      schedule_(std::move(schedule)),
      slots_(slots_of(*optimizer_, groups_.parameters())),
      accumulator_(accumulator_slots(groups_.parameters())),
      place_of_group_(groups_.groups().size(), kNone),
      clip_of_group_(groups_.groups().size(), kNone) {
  require(!parameters().empty(), {.id = "optim.nothing_to_train",
                                  .where = "parameter groups",
                                  .expected = "a parameter that is not frozen",
                                  .got = "none"});
  require(clip_norm > 0, {.id = "optim.clip_norm",
                          .where = "clip_norm",
                          .expected = "a number > 0 (infinity: off)",
                          .got = fmt::format("{}", clip_norm)});
  assign_clips(clip_norm);
  size_t next = 0;
  for (size_t i = 0; i <= parameters().size(); ++i) {
    while (next < slots_.size() && slots_[next].parameter < static_cast<int64_t>(i)) ++next;
    first_slot_.push_back(next);
  }
}

UpdatePlan UpdatePlan::with_layout(std::vector<SlotSpec> slots,
                                   std::vector<SlotSpec> accumulator) const {
  invariant(same_but_for_axes(slots, slots_) && same_but_for_axes(accumulator, accumulator_),
            "optim.laid_out", "the plan's own slots, on other mesh axes");
  UpdatePlan plan = *this;
  plan.slots_ = std::move(slots);
  plan.accumulator_ = std::move(accumulator);
  return plan;
}

UpdatePlan UpdatePlan::with_average(double decay) const {
  invariant(parts_ == 0 && !decay_ && slots_.size() == first_slot_.back(), "optim.averaged_plan",
            "a plan as it was made");
  ema_scalars(decay);  // checks it
  UpdatePlan plan = *this;
  plan.decay_ = decay;
  for (SlotSpec& slot : ema_slots(parameters())) plan.slots_.push_back(std::move(slot));
  return plan;
}

UpdatePlan UpdatePlan::with_partial_sums(const std::vector<std::string>& axes,
                                         const sharding::Mesh& mesh) const {
  invariant(parts_ == 0, "optim.partial_twice", "a plan of whole sums");
  const int64_t parts = mesh.axes_size(axes, "partial sums");
  if (parts == 1) return *this;
  UpdatePlan plan = *this;
  plan.parts_ = parts;
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Parameter& p = parameters()[i];
    for (const sharding::Dim& dim : p.type.dims) {
      for (const std::string& axis : dim.axes) {
        require(std::find(axes.begin(), axes.end(), axis) == axes.end(),
                {.id = "optim.partial_axes",
                 .where = p.name,
                 .expected = "a parameter that is whole along " + join(axes, ", "),
                 .got = sharding::text_of(p.type)});
      }
    }
    SlotSpec& slot = plan.accumulator_[i];
    plan.summed_.push_back(ir::axes_of(slot.type));
    slot.type = derived_type(p.type, {}, DType::f32, slot.name);
    slot.type.dims.insert(slot.type.dims.begin(), sharding::Dim{.size = parts, .axes = axes});
  }
  return plan;
}

// The parts of each gradient added up, over devices.
Sums UpdatePlan::whole(const Sums& sums) const {
  if (parts_ == 0) return sums;
  Sums out = sums;
  for (size_t i = 0; i < out.gradients.size(); ++i) {
    Value sum = ops::reduce_sum(ops::convert(out.gradients[i], DType::f32), {0});
    out.gradients[i] = ops::sharding_constraint(sum, sharding::shardy_sharding(summed_[i]));
  }
  return out;
}

// Groups without a trained parameter have no scalars; groups without a norm of their own share one.
void UpdatePlan::assign_clips(double clip_norm) {
  for (const Parameter& p : parameters()) place_of_group_[p.group] = 0;
  size_t global = kNone;
  for (size_t g = 0; g < place_of_group_.size(); ++g) {
    if (place_of_group_[g] == kNone) continue;
    place_of_group_[g] = active_.size();
    active_.push_back(g);
    const GroupConfig& group = groups_.groups()[g];
    if (!group.clip_norm && global != kNone) {
      clip_of_group_[g] = global;
      continue;
    }
    clip_of_group_[g] = clips_.size();
    if (!group.clip_norm) global = clips_.size();
    clips_.push_back(
        {group.clip_norm ? "/" + group.name : "", group.clip_norm.value_or(clip_norm)});
  }
}

std::vector<NamedScalar> UpdatePlan::scalars(int64_t count) const {
  double rate = schedule_.at(count);
  std::vector<NamedScalar> rows = optimizer_->scalars(count);
  for (size_t g : active_) {
    const GroupConfig& group = groups_.groups()[g];
    rows.push_back({"lr/" + group.name, rate * group.lr_multiplier});
    rows.push_back(
        {"weight_decay/" + group.name, group.weight_decay.value_or(optimizer_->weight_decay())});
  }
  for (const ClipSet& clip : clips_) rows.push_back({"clip_norm" + clip.suffix, clip.limit});
  if (!decay_) return rows;
  for (NamedScalar& row : ema_scalars(*decay_)) rows.push_back(std::move(row));
  return rows;
}

std::vector<float> UpdatePlan::scalar_values(int64_t count) const {
  std::vector<float> values;
  for (const NamedScalar& row : scalars(count)) {
    bool off = row.name.starts_with("clip_norm") && std::isinf(row.value);
    bool fits = off || std::abs(row.value) <= std::numeric_limits<float>::max();
    require(fits, {.id = "optim.scalar_range",
                   .where = "scalar " + row.name,
                   .expected = "a number that float32 can hold",
                   .got = fmt::format("{}", row.value),
                   .code = Code::out_of_range});
    values.push_back(static_cast<float>(row.value));
  }
  return values;
}

std::vector<std::string> UpdatePlan::norms() const {
  std::vector<std::string> names;
  for (const ClipSet& clip : clips_) names.push_back("grad_norm" + clip.suffix);
  return names;
}

void UpdatePlan::check_inputs(const Values& parameters_in, const Values& slots_in, const Sums& sums,
                              const Values& scalars_in) const {
  const ir::Type scalar = {};
  check_count("parameters", parameters().size(), parameters_in.size());
  check_count("gradients", parameters().size(), sums.gradients.size());
  check_count("slots", slots_.size(), slots_in.size());
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Parameter& p = parameters()[i];
    ir::Type type = traced_type(p.type);
    check_type("parameter " + p.name, type, parameters_in[i]);
    check_gradient(p.name, traced_type(accumulator_[i].type), sums.gradients[i]);
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    check_type("slot " + slots_[i].name, traced_type(slots_[i].type), slots_in[i]);
  }
  check_type("summed loss", scalar, sums.loss);
  check_type("summed weight", scalar, sums.weight);
  std::vector<NamedScalar> rows = scalars(0);
  check_count("scalars", rows.size(), scalars_in.size());
  for (size_t i = 0; i < rows.size(); ++i)
    check_type("scalar " + rows[i].name, scalar, scalars_in[i]);
}

struct UpdatePlan::Shared {
  Values scalars;                // the optimiser's
  Values rates, decays;          // by position in active_
  Values factors;                // of the summed gradient, by position in clips_
  Value inverse, loss, applied;  // 1 / weight, mean loss, whether to apply
  Values norms;                  // by position in clips_
  Values average;                // scalars of the weight average, if one is kept
};

UpdatePlan::Shared UpdatePlan::share(ir::Function& function, const Sums& sums,
                                     const Values& scalars_in) const {
  Shared s;
  const size_t average = decay_ ? ema_scalars(*decay_).size() : 0;
  auto row =
      scalars_in.end() - static_cast<std::ptrdiff_t>(2 * active_.size() + clips_.size() + average);
  s.scalars.assign(scalars_in.begin(), row);
  s.average.assign(scalars_in.end() - static_cast<std::ptrdiff_t>(average), scalars_in.end());
  for (size_t i = 0; i < active_.size(); ++i) {
    s.rates.push_back(*row++);
    s.decays.push_back(*row++);
  }
  Value zero = ops::full_like(sums.weight, 0);
  Value counts = ops::compare(sums.weight, zero, "GT");
  s.inverse = ops::select(counts, 1.0 / sums.weight, zero);
  s.loss = sums.loss * s.inverse;
  s.applied = ops::and_(counts, all_finite(function, {sums.weight, sums.loss}));
  for (size_t c = 0; c < clips_.size(); ++c) {
    Values leaves;
    for (size_t i = 0; i < parameters().size(); ++i) {
      if (clip_of_group_[parameters()[i].group] == c) leaves.push_back(sums.gradients[i]);
    }
    Value norm = ops::sqrt(sum_of_squares(function, leaves)) * s.inverse;
    s.norms.push_back(norm);
    s.factors.push_back(s.inverse * clip_scale(norm, *row++));
    s.applied = ops::and_(s.applied, ops::is_finite(norm));
  }
  return s;
}

void UpdatePlan::update_parameter(size_t index, Value gradient, const Shared& shared,
                                  UpdateResult& state) const {
  const Parameter& parameter = parameters()[index];
  size_t place = place_of_group_[parameter.group];
  size_t first = first_slot_[index], count = first_slot_[index + 1] - first;
  Value& p = state.parameters[index];
  Optimizer::Leaf leaf = {.parameter = p,
                          .gradient = ops::convert(gradient, DType::f32) *
                                      shared.factors[clip_of_group_[parameter.group]],
                          .lr = shared.rates[place],
                          .weight_decay = shared.decays[place],
                          .scalars = shared.scalars};
  std::span<Value> slots(state.slots.data() + first, count);
  leaf.slots = in_float32(slots);
  Values next;
  bool slots_first = !optimizer_->step_reads_old_slots();
  if (slots_first) next = advance(*optimizer_, parameter, leaf, shared.applied, slots);
  p = ops::select(shared.applied, p - optimizer_->step(parameter, leaf, next), p);
  if (slots_first) return;
  // Without the barrier the compiler copies the old slots instead of ordering the two.
  Values ordered(slots.begin(), slots.end());
  ordered.push_back(p);
  ordered = ops::optimization_barrier(ordered);
  p = ordered.back();
  std::copy_n(ordered.begin(), count, slots.begin());
  leaf.slots = in_float32(slots);
  advance(*optimizer_, parameter, leaf, shared.applied, slots);
}

// `gradient`, which is there only once the update of parameter `index` is done. Updates that need
// temporaries so run one after the other; otherwise all of these would live at once.
Value UpdatePlan::after_update(size_t index, Value gradient, UpdateResult& state) const {
  const size_t first = first_slot_[index], count = first_slot_[index + 1] - first;
  Values done(state.slots.begin() + static_cast<std::ptrdiff_t>(first),
              state.slots.begin() + static_cast<std::ptrdiff_t>(first + count));
  done.insert(done.end(), {state.parameters[index], gradient});
  done = ops::optimization_barrier(done);
  std::copy_n(done.begin(), count, state.slots.begin() + static_cast<std::ptrdiff_t>(first));
  state.parameters[index] = done[count];
  return done.back();
}

// The parameters are whole before their averages read them: the compiler would otherwise compute
// each of them twice.
void UpdatePlan::update_averages(const Shared& shared, UpdateResult& state) const {
  if (!decay_) return;
  auto first = state.slots.begin() + static_cast<std::ptrdiff_t>(first_average());
  for (Value& p : state.parameters) p = ops::optimization_barrier({p}).front();
  Values next =
      ema(Values(first, state.slots.end()), state.parameters, shared.average, shared.applied);
  std::copy(next.begin(), next.end(), first);
}

UpdateResult UpdatePlan::trace(ir::Function& function, const Values& parameters_in,
                               const Values& slots_in, const Sums& sums_in,
                               const Values& scalars_in) const {
  check_inputs(parameters_in, slots_in, sums_in, scalars_in);
  ir::NameScope update(function, "update");
  const Sums sums = whole(sums_in);
  Shared shared = share(function, sums, scalars_in);
  UpdateResult state = {.parameters = parameters_in,
                        .slots = slots_in,
                        .loss = shared.loss,
                        .weight = sums.weight,
                        .applied = shared.applied,
                        .norms = shared.norms};
  for (size_t i = 0; i < parameters().size(); ++i) {
    ir::NameScope scope(function, parameters()[i].name);
    Value gradient = sums.gradients[i];
    if (i > 0 && optimizer_->couples_elements()) gradient = after_update(i - 1, gradient, state);
    update_parameter(i, gradient, shared, state);
  }
  update_averages(shared, state);
  return state;
}

}  // namespace strata::optim
