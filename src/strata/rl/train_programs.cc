#include "strata/rl/train_programs.h"

#include <algorithm>

#include "strata/nn/compute_type.h"
#include "strata/nn/context.h"
#include "strata/nn/token_loss.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/parts.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/optim/clip.h"
#include "strata/transform/vjp.h"

namespace strata::rl {
namespace {

using ir::Function;
using ir::Type;
using ir::Value;
using ir::Values;
using sharding::ParamType;

// The batch's inputs as traced values.
struct TracedBatch {
  Value ids, positions, segments, parents, source, labels, sequence, terms, temperature, weight;

  // One number a scored token, in a flat list.
  Value term(int64_t row) const { return flat(ops::select_index(terms, 0, row)); }
  static Value flat(Value list) {
    return list.rank() == 1 ? list : ops::reshape(list, {list.dim(0) * list.dim(1)});
  }
};

struct NamedType {
  ParamType type;
  const char* name;
};

// In the order of TracedBatch.
std::vector<NamedType> batch_inputs(const sharding::Placement& placement, const BatchShape& s) {
  BatchTypes t = batch_types(placement, s);
  ParamType number{DType::f32, {}};
  return {{t.grid, "ids"},         {t.grid, "positions"}, {t.grid, "segments"},
          {t.grid, "parents"},     {t.list, "source"},    {t.list, "labels"},
          {t.list, "sequence"},    {t.terms, "terms"},    {number, "temperature"},
          {number, "batch_weight"}};
}

TracedBatch batch_of(const Values& v) {
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v.size() > 9 ? v[9] : Value{}};
}

Values declare_batch(Function& f, const sharding::Placement& placement, const BatchShape& s) {
  Values inputs;
  for (const NamedType& in : batch_inputs(placement, s)) {
    inputs.push_back(f.declare(in.type, in.name));
  }
  return inputs;
}

// What a slot of the manifest is as an input: floats in float32, others as they are declared.
ParamType master_type(const sharding::Slot& slot) {
  ParamType type = slot.type;
  if (is_float(type.dtype)) type.dtype = DType::f32;
  return type;
}

// The hidden states that predict the scored tokens: (scored, E), or (groups, scored / groups, E)
// where the rows are in several groups.
Value chosen_states(const nn::Context& context, Value hidden, Value source) {
  int64_t places = hidden.dim(0) * hidden.dim(1), groups = source.rank() == 2 ? source.dim(0) : 1;
  if (groups == 1) {
    Value flat = ops::reshape(hidden, {places, hidden.dim(2)});
    return ops::take(flat, TracedBatch::flat(source), 0);
  }
  Value grouped = ops::reshape(hidden, {groups, places / groups, hidden.dim(2)});
  grouped = context.lay_out(grouped, {"batch", "", ""});
  return context.lay_out(ops::take_rows(grouped, source), {"batch", "", ""});
}

nn::TokenScores scores(Function& f, const ModelView& view, const Values& masters,
                       const TracedBatch& b, const TrainOptions& o,
                       const std::vector<std::string>& manual = {}) {
  nn::Context context =
      nn::Context(f, *view.structure, weights_of(*view.structure, masters, o.compute))
          .over_mesh(manual);
  models::LmInput input;
  input.ids = b.ids;
  input.positions = b.positions;
  input.segments = b.segments;
  input.parents = b.parents;
  Value chosen = chosen_states(context, view.model->forward(context, input).hidden, b.source);
  bool policy = o.loss == LossKind::policy;
  return nn::token_scores(chosen, view.model->head(context),
                          chosen.rank() == 2 ? TracedBatch::flat(b.labels) : b.labels,
                          {.temperature = policy ? b.temperature : Value{},
                           .chunk = o.chunk,
                           .entropy = policy,
                           .context = &context});
}

PolicyLoss batch_loss(const nn::TokenScores& s, const TracedBatch& b, const TrainOptions& o) {
  Value logprobs = TracedBatch::flat(s.logprobs);
  if (o.loss == LossKind::policy) {
    PolicyTerms t{
        logprobs,  TracedBatch::flat(s.entropy), b.term(0), b.term(1), b.term(2), b.term(3),
        b.term(4), TracedBatch::flat(b.sequence)};
    return policy_loss(t, o.policy);
  }
  Value weight = b.term(0);
  Value active = ops::compare(weight, ops::full_like(weight, 0), "NE");
  Value loss = ops::select(active, -(weight * logprobs), ops::full_like(weight, 0));
  Value tokens = ops::reduce_sum(ops::convert(active, DType::f32), {0});
  return {ops::reduce_sum(loss, {0}), ops::reshape(tokens, {1})};
}

// The manifest's slots that the plan trains, in the plan's order.
Values trained(const nn::Structure& structure, const optim::UpdatePlan& plan,
               const Values& masters) {
  Values out;
  for (const optim::Parameter& p : plan.parameters()) {
    out.push_back(masters[static_cast<size_t>(structure.manifest().index_of(p.name))]);
  }
  return out;
}

ir::Port port_of(const ParamType& type, const std::string& name) {
  return {name, "", ir::axes_of(type)};
}

std::vector<ir::Port> ports_of(const std::vector<optim::SlotSpec>& slots) {
  std::vector<ir::Port> ports;
  for (const optim::SlotSpec& s : slots) ports.push_back(port_of(s.type, s.name));
  return ports;
}

std::string alias(size_t output) {
  return "tf.aliasing_output = " + std::to_string(output) + " : i32";
}

// The leading axes of the batch that split no parameter.
std::vector<std::string> data_axes(const sharding::Placement& placement, const BatchShape& shape) {
  std::vector<std::string> axes;
  const BatchTypes types = batch_types(placement, shape);
  for (const std::string& axis : types.grid.dims[0].axes) {
    for (const sharding::Slot& s : placement.manifest.slots()) {
      for (const sharding::Dim& dim : s.type.dims) {
        if (std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end()) return axes;
      }
    }
    axes.push_back(axis);
  }
  return axes;
}

// A micro-step's sums.
struct Micro {
  Value loss;
  Value metrics;
  Values gradients;  // of the trained parameters
};

Micro micro_step(Function& f, const ModelView& view, const optim::UpdatePlan& plan,
                 const Values& masters, const TracedBatch& batch, const TrainOptions& o,
                 const std::vector<std::string>& manual) {
  PolicyLoss loss = batch_loss(scores(f, view, masters, batch, o, manual), batch, o);
  return {loss.loss, loss.metrics,
          transform::gradient(loss.loss, trained(*view.structure, plan, masters))};
}

Value with_part_dim(const Value& v) {
  Dims dims = v.dims();
  dims.insert(dims.begin(), 1);
  return ops::reshape(v, dims);
}

// The metrics of parts (parts, metrics) as those of the whole: sums, but for the maxima at the end.
Value merged_metrics(Value parts, LossKind kind) {
  const int64_t count = parts.dim(1);
  if (kind != LossKind::policy) return ops::reduce_sum(parts, {0});
  const int64_t sums = count - kMaximaMetrics;
  return ops::concatenate({ops::reduce_sum(ops::slice_axis(parts, 1, 0, sums), {0}),
                           ops::reduce_max(ops::slice_axis(parts, 1, sums, count), {0})},
                          0);
}

// The same on each part of the batch alone: gradients come with a first dim that counts the parts
// and are added up by the update.
Micro micro_step_in_parts(Function& f, const ModelView& view, const optim::UpdatePlan& plan,
                          const BatchShape& shape, const Values& masters, const Values& batch,
                          const TrainOptions& o) {
  const sharding::Placement& placement = view.structure->placement();
  const std::vector<std::string> manual = data_axes(placement, shape);
  std::vector<ops::DimAxes> in, out{{manual}, {manual, {}}};
  for (const sharding::Slot& s : view.structure->manifest().slots()) {
    in.push_back(ir::axes_of(s.type));
  }
  for (const NamedType& input : batch_inputs(placement, shape)) {
    in.push_back(ir::axes_of(input.type));
  }
  for (size_t i = 0; i < plan.parameters().size(); ++i) {
    out.push_back(ir::axes_of(plan.accumulator()[i].type));
  }
  Values inputs = masters;
  inputs.insert(inputs.end(), batch.begin(), batch.end() - 1);  // all but the weight
  in.pop_back();
  Values results = ops::on_parts(f, inputs, in, out, manual, [&](const Values& part) {
    auto split = part.begin() + static_cast<std::ptrdiff_t>(masters.size());
    Micro m = micro_step(f, view, plan, Values(part.begin(), split),
                         batch_of(Values(split, part.end())), o, manual);
    Values values{with_part_dim(m.loss), with_part_dim(m.metrics)};
    for (const Value& g : m.gradients) values.push_back(with_part_dim(g));
    return values;
  });
  return {ops::reduce_sum(results[0], {0}), merged_metrics(results[1], o.loss),
          Values(results.begin() + 2, results.end())};
}

}  // namespace

Values declare_masters(Function& f, const nn::Structure& structure) {
  Values masters;
  for (const sharding::Slot& s : structure.manifest().slots()) {
    masters.push_back(f.declare(master_type(s), s.name));
  }
  return masters;
}

Values weights_of(const nn::Structure& structure, const Values& masters, DType compute) {
  const std::vector<sharding::Slot>& slots = structure.manifest().slots();
  Values weights;
  for (size_t i = 0; i < masters.size(); ++i) {
    weights.push_back(nn::in_compute_type(slots[i], masters[i], compute));
  }
  return weights;
}

BatchTypes batch_types(const sharding::Placement& placement, const BatchShape& s) {
  BatchTypes out;
  ParamType grid{DType::i32, {{.size = s.rows, .name = "batch"}, {.size = s.tokens}}};
  out.grid = place_array(placement, grid, "the batch's ids", out.reasons);
  sharding::Dim scored{.size = s.scored / s.groups}, groups = out.grid.dims[0];
  groups.size = s.groups;
  out.list = {DType::i32, {scored}};
  if (s.groups > 1) out.list.dims.insert(out.list.dims.begin(), groups);
  out.terms = {DType::f32, out.list.dims};
  out.terms.dims.insert(out.terms.dims.begin(), sharding::Dim{.size = 5});
  return out;
}

BatchShape placed_shape(const sharding::Placement& placement, BatchShape shape) {
  shape.groups = 1;
  BatchTypes types = batch_types(placement, shape);
  shape.groups = placement.mesh.axes_size(types.grid.dims[0].axes);
  shape.scored = (shape.scored + shape.groups - 1) / shape.groups * shape.groups;
  return shape;
}

optim::UpdatePlan deferred(const optim::UpdatePlan& plan, const sharding::Placement& placement,
                           const BatchShape& shape) {
  return plan.with_partial_sums(data_axes(placement, shape), placement.mesh);
}

std::unique_ptr<Function> gradients_function(const ModelView& view, const optim::UpdatePlan& plan,
                                             const BatchShape& shape, const TrainOptions& o,
                                             bool accumulate) {
  auto function = std::make_unique<Function>(accumulate ? "accumulate" : "gradients");
  Function& f = *function;
  const sharding::Placement& placement = view.structure->placement();
  f.set_mesh(placement.mesh);
  Values masters = declare_masters(f, *view.structure);
  Values before;
  if (accumulate) {
    for (const optim::SlotSpec& s : plan.accumulator()) {
      before.push_back(f.declare(s.type, s.name));
      f.argument_ports().back().attributes = alias(before.size() - 1);
    }
  }
  Values batch = declare_batch(f, placement, shape);
  Micro micro = plan.parts() == 0 ? micro_step(f, view, plan, masters, batch_of(batch), o, {})
                                  : micro_step_in_parts(f, view, plan, shape, masters, batch, o);
  optim::Sums sums{micro.loss, micro.gradients, batch_of(batch).weight};
  optim::Accumulator after =
      accumulate ? optim::accumulate(optim::accumulator_of(before), sums) : optim::begin(sums);
  Values results = optim::flat(after);
  results.push_back(micro.metrics);
  f.set_results(results, ports_of(plan.accumulator()));
  return function;
}

std::unique_ptr<Function> update_function(const optim::UpdatePlan& plan,
                                          const sharding::Mesh& mesh) {
  auto function = std::make_unique<Function>("update");
  Function& f = *function;
  f.set_mesh(mesh);
  Values parameters, slots, sums;
  auto donated = [&](const sharding::ParamType& type, const std::string& name) {
    Value v = f.declare(type, name);
    f.argument_ports().back().attributes = alias(parameters.size() + slots.size());
    return v;
  };
  for (const optim::Parameter& p : plan.parameters()) {
    parameters.push_back(donated(p.type, p.name));
  }
  for (const optim::SlotSpec& s : plan.slots()) slots.push_back(donated(s.type, s.name));
  for (const optim::SlotSpec& s : plan.accumulator()) {
    sums.push_back(f.declare(s.type, s.name));
  }
  auto count = static_cast<int64_t>(plan.scalars(0).size());
  Value packed = f.parameter({DType::f32, {count}}, "scalars");
  Values scalars;
  for (int64_t i = 0; i < count; ++i) scalars.push_back(ops::select_index(packed, 0, i));
  optim::Accumulator a = optim::accumulator_of(sums);
  optim::UpdateResult r = plan.trace(f, parameters, slots, a.sums, scalars);
  Values stats{r.loss, r.weight, ops::convert(r.applied, DType::f32),
               ops::convert(a.added, DType::f32), ops::convert(a.skipped, DType::f32)};
  stats.insert(stats.end(), r.norms.begin(), r.norms.end());
  for (Value& v : stats) v = ops::reshape(v, {1});
  Values results = r.parameters;
  results.insert(results.end(), r.slots.begin(), r.slots.end());
  results.push_back(ops::concatenate(stats, 0));
  std::vector<ir::Port> ports;
  for (const optim::Parameter& p : plan.parameters()) ports.push_back(port_of(p.type, p.name));
  std::vector<ir::Port> more = ports_of(plan.slots());
  ports.insert(ports.end(), more.begin(), more.end());
  f.set_results(results, ports);
  return function;
}

std::unique_ptr<Function> slots_function(const optim::UpdatePlan& plan,
                                         const sharding::Mesh& mesh) {
  auto function = std::make_unique<Function>("slots");
  function->set_mesh(mesh);
  Values parameters, slots;
  if (plan.keeps_average()) {
    for (const optim::Parameter& p : plan.parameters()) {
      parameters.push_back(function->declare(p.type, p.name));
    }
  }
  for (const optim::SlotSpec& s : plan.slots()) {
    slots.push_back(s.initial == optim::SlotSpec::Initial::parameter
                        ? parameters[static_cast<size_t>(s.parameter)]
                        : ops::full(*function, s.type.dtype, s.type.sizes(), 0));
  }
  function->set_results(slots, ports_of(plan.slots()));
  return function;
}

std::unique_ptr<Function> finite_function(const optim::UpdatePlan& plan,
                                          const sharding::Mesh& mesh) {
  auto function = std::make_unique<Function>("finite");
  function->set_mesh(mesh);
  Values parameters;
  for (const optim::Parameter& p : plan.parameters()) {
    parameters.push_back(function->declare(p.type, p.name));
  }
  Value finite = ops::convert(optim::all_finite(*function, parameters), DType::f32);
  function->set_results({finite}, {port_of({DType::f32, {}}, "finite")});
  return function;
}

std::unique_ptr<Function> average_function(const optim::UpdatePlan& plan,
                                           const sharding::Mesh& mesh) {
  auto function = std::make_unique<Function>("average");
  function->set_mesh(mesh);
  Values averages;
  std::vector<ir::Port> ports;
  for (size_t i = plan.first_average(); i < plan.slots().size(); ++i) {
    averages.push_back(function->declare(plan.slots()[i].type, plan.slots()[i].name));
  }
  for (const optim::Parameter& p : plan.parameters()) ports.push_back(port_of(p.type, p.name));
  function->set_results(averages, ports);
  return function;
}

std::unique_ptr<Function> logprobs_function(const ModelView& view, const BatchShape& shape,
                                            const TrainOptions& o) {
  auto function = std::make_unique<Function>("logprobs");
  Function& f = *function;
  f.set_mesh(view.structure->mesh());
  Values masters = declare_masters(f, *view.structure);
  TracedBatch b = batch_of(declare_batch(f, view.structure->placement(), shape));
  nn::TokenScores s = scores(f, view, masters, b, o);
  Value entropy = s.entropy ? s.entropy : ops::full_like(s.logprobs, 0);
  Dims every;
  for (int64_t i = 0; i < b.terms.rank(); ++i) every.push_back(i);
  Value sequences = TracedBatch::flat(b.sequence);
  // Every input is used, so that all three programs take the same list.
  Value unused = b.weight * 0.0 + ops::reduce_sum(b.terms * 0.0, every) +
                 ops::convert(ops::reduce_max(sequences, {0}), DType::f32) * 0.0;
  ParamType list = batch_types(view.structure->placement(), shape).list;
  f.set_results({s.logprobs + unused, entropy},
                {port_of(list, "logprobs"), port_of(list, "entropies")});
  return function;
}

}  // namespace strata::rl
