#include "strata/rl/train_programs.h"

#include "strata/nn/context.h"
#include "strata/nn/token_loss.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
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

  Value term(int64_t row) const { return ops::select_index(terms, 0, row); }
};

TracedBatch batch_parameters(Function& f, const sharding::Placement& placement,
                             const BatchShape& s) {
  ParamType grid = batch_type(placement, s).type;
  Type list{DType::i32, {s.scored}};
  TracedBatch b;
  b.ids = f.declare(grid, "ids");
  b.positions = f.declare(grid, "positions");
  b.segments = f.declare(grid, "segments");
  b.parents = f.declare(grid, "parents");
  b.source = f.parameter(list, "source");
  b.labels = f.parameter(list, "labels");
  b.sequence = f.parameter(list, "sequence");
  b.terms = f.parameter({DType::f32, {5, s.scored}}, "terms");
  b.temperature = f.parameter({DType::f32, {}}, "temperature");
  b.weight = f.parameter({DType::f32, {}}, "batch_weight");
  return b;
}

// Parameters of every slot; `weights` are their casts to the compute type.
struct Bound {
  Values masters, weights;
};

Bound bind(Function& f, const nn::Structure& structure, DType compute) {
  Bound out;
  for (const sharding::Slot& s : structure.manifest().slots()) {
    ParamType master = s.type;
    master.dtype = DType::f32;
    out.masters.push_back(f.declare(master, s.name));
    out.weights.push_back(ops::convert(out.masters.back(), compute));
  }
  return out;
}

nn::TokenScores scores(Function& f, const ModelView& view, const Values& weights,
                       const TracedBatch& b, const TrainOptions& o) {
  nn::Context context(f, *view.structure, weights);
  models::LmInput input;
  input.ids = b.ids;
  input.positions = b.positions;
  input.segments = b.segments;
  input.parents = b.parents;
  Value hidden = view.model->forward(context, input).hidden;
  int64_t places = b.ids.dim(0) * b.ids.dim(1);
  Value flat = ops::reshape(hidden, {places, hidden.dim(2)});
  Value chosen = ops::take(flat, b.source, 0);
  bool policy = o.loss == LossKind::policy;
  return nn::token_scores(
      chosen, view.model->head(context), b.labels,
      {.temperature = policy ? b.temperature : Value{}, .chunk = o.chunk, .entropy = policy});
}

PolicyLoss batch_loss(const nn::TokenScores& s, const TracedBatch& b, const TrainOptions& o) {
  if (o.loss == LossKind::policy) {
    PolicyTerms t{s.logprobs, s.entropy, b.term(0), b.term(1),
                  b.term(2),  b.term(3), b.term(4), b.sequence};
    return policy_loss(t, o.policy);
  }
  Value weight = b.term(0);
  Value active = ops::compare(weight, ops::full_like(weight, 0), "NE");
  Value loss = ops::select(active, -(weight * s.logprobs), ops::full_like(weight, 0));
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

}  // namespace

sharding::Resolved batch_type(const sharding::Placement& placement, const BatchShape& s) {
  sharding::Resolved out;
  ParamType grid{DType::i32, {{.size = s.rows, .name = "batch"}, {.size = s.tokens}}};
  out.type = place_array(placement, grid, "the batch's ids", out.reasons);
  return out;
}

std::unique_ptr<Function> gradients_function(const ModelView& view, const optim::UpdatePlan& plan,
                                             const BatchShape& shape, const TrainOptions& o,
                                             bool accumulate) {
  auto function = std::make_unique<Function>(accumulate ? "accumulate" : "gradients");
  Function& f = *function;
  f.set_mesh(view.structure->mesh());
  Bound bound = bind(f, *view.structure, o.compute);
  Values before;
  if (accumulate) {
    for (const optim::SlotSpec& s : plan.accumulator()) {
      before.push_back(f.declare(s.type, s.name));
      f.argument_ports().back().attributes = alias(before.size() - 1);
    }
  }
  TracedBatch b = batch_parameters(f, view.structure->placement(), shape);
  PolicyLoss loss = batch_loss(scores(f, view, bound.weights, b, o), b, o);
  optim::Sums sums;
  sums.loss = loss.loss;
  sums.weight = b.weight;
  sums.gradients = transform::gradient(loss.loss, trained(*view.structure, plan, bound.masters));
  optim::Accumulator after =
      accumulate ? optim::accumulate(optim::accumulator_of(before), sums) : optim::begin(sums);
  Values results = optim::flat(after);
  results.push_back(loss.metrics);
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
  Values slots;
  for (const optim::SlotSpec& s : plan.slots()) {
    slots.push_back(ops::full(*function, s.type.dtype, s.type.sizes(), 0));
  }
  function->set_results(slots, ports_of(plan.slots()));
  return function;
}

std::unique_ptr<Function> logprobs_function(const ModelView& view, const BatchShape& shape,
                                            const TrainOptions& o) {
  auto function = std::make_unique<Function>("logprobs");
  Function& f = *function;
  f.set_mesh(view.structure->mesh());
  Bound bound = bind(f, *view.structure, o.compute);
  TracedBatch b = batch_parameters(f, view.structure->placement(), shape);
  nn::TokenScores s = scores(f, view, bound.weights, b, o);
  Value entropy = s.entropy ? s.entropy : ops::full_like(s.logprobs, 0);
  // Every input is used, so that all three programs take the same list.
  Value unused = b.weight * 0.0 + ops::reduce_sum(b.terms * 0.0, {0, 1}) +
                 ops::convert(ops::reduce_max(b.sequence, {0}), DType::f32) * 0.0;
  f.set_results({s.logprobs + unused, entropy});
  return function;
}

}  // namespace strata::rl
