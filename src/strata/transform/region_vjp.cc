#include "strata/transform/region_vjp.h"

#include <algorithm>
#include <unordered_set>

#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/transform/vjp.h"

namespace strata::transform {
namespace {

using ir::Function;
using ir::Node;
using ir::Region;
using ir::RegionScope;
using ir::Type;
using ir::Value;
using ir::ValueMap;
using ir::Values;
using ops::Remat;

using ValueSet = std::unordered_set<Value, ir::ValueHash>;

void append(Values& to, const Values& from) { to.insert(to.end(), from.begin(), from.end()); }

// The forward and reverse sweep of one body, traced into a region of its own.
struct Scratch {
  std::unique_ptr<Region> region;
  Values params;      // copies of the body's parameters
  Values outputs;     // copies of the body's results
  Values cotangents;  // parameter per result; null where the cotangent is zero
  Values gradients;   // per body parameter; null where not wanted or zero
};

// `seeded[i]`: result i has a cotangent. `wanted[i]`: the gradient of parameter i is asked for.
Scratch differentiate(Function& f, const Region& body, const std::vector<bool>& seeded,
                      const std::vector<bool>& wanted) {
  Scratch s;
  RegionScope scope(f);
  for (const Value& p : body.params) s.params.push_back(scope.parameter(p.type()));
  s.outputs = ir::inline_region(f, body, s.params);
  for (size_t i = 0; i < seeded.size(); ++i) {
    s.cotangents.push_back(seeded[i] ? scope.parameter(s.outputs[i].type()) : Value{});
  }
  Values inputs = s.params;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!wanted[i]) inputs[i] = Value{};
  }
  s.gradients = vjp(s.outputs, s.cotangents, inputs);
  Values results;
  for (const Value& g : s.gradients) {
    if (g) results.push_back(g);
  }
  append(results, s.outputs);
  Values captured = scope.close(results);
  invariant(captured.empty(), "transform.open_sweep", "a reverse sweep inside its region");
  s.region = scope.take();
  return s;
}

bool is_saved(const Node& n, const Remat& remat) {
  switch (remat.policy) {
    case Remat::Policy::full:
      return false;
    case Remat::Policy::none:
      return n.def->cost != ir::Cost::free;
    case Remat::Policy::dots:
      return n.def == &ops::kDotGeneral || !n.regions.empty();
    case Remat::Policy::names:
    case Remat::Policy::offload:
      return n.def == &ops::kTag &&
             std::find(remat.names.begin(), remat.names.end(),
                       n.attributes.get<std::string>("name")) != remat.names.end();
  }
  return false;
}

// A reduction's body is part of the op, not a computation worth saving under `dots`.
bool is_plain_reduction(const Node& n) { return n.def->name == "reduce"; }

// The forward values that the reverse sweep needs saved, in order of discovery. Parameters in
// `at_hand` need not be.
Values residuals(const Scratch& s, const Remat& remat, const ValueSet& at_hand) {
  std::unordered_set<const Node*> reverse;
  for (const Value& c : s.cotangents) {
    if (c) reverse.insert(c.node);
  }
  for (Node* n : ir::post_order(s.region->results, s.region.get())) {
    for (const Value& v : n->operands) {
      if (reverse.contains(v.node)) reverse.insert(n);
    }
  }
  Values saved, stack;
  ValueSet seen;
  for (const Value& g : s.gradients) {
    if (g) stack.push_back(g);
  }
  while (!stack.empty()) {
    Value v = stack.back();
    stack.pop_back();
    if (!seen.insert(v).second) continue;
    Node& n = *v.node;
    bool forward = !reverse.contains(&n);
    bool parameter = n.def == &ir::kParameter;
    if (parameter && (!forward || at_hand.contains(v))) continue;
    bool save =
        is_saved(n, remat) && !(remat.policy == Remat::Policy::dots && is_plain_reduction(n));
    if (forward && (parameter || (save && !n.operands.empty()))) {
      saved.push_back(v);
      continue;
    }
    // Right to left, so that operands are visited left to right.
    for (auto it = n.operands.rbegin(); it != n.operands.rend(); ++it) stack.push_back(*it);
  }
  return saved;
}

// Saved values wait in host memory, if the policy says so, until the reverse sweep wants them.
Value put_away(const Value& v, const Remat& remat) {
  return remat.policy == Remat::Policy::offload ? ops::placed(v, "pinned_host") : v;
}
Value brought_back(const Value& v, const Remat& remat) {
  return remat.policy == Remat::Policy::offload ? ops::placed(v, "device") : v;
}

// Replaces the body of `n` by the scratch's forward part with `saved` as extra results.
void extend_forward(Node& n, const Scratch& s, const Values& saved) {
  Function& f = *n.function;
  RegionScope scope(f);
  ValueMap map;
  for (const Value& p : s.params) map[p] = scope.parameter(p.type());
  Values wanted = s.outputs;
  append(wanted, saved);
  Values results = ir::copy_values(f, wanted, map);
  for (size_t i = s.outputs.size(); i < results.size(); ++i) {
    results[i] = put_away(results[i], ops::remat_of(n));
  }
  scope.close(std::move(results));
  n.regions[0] = scope.take();
}

Values results_from(Node& n, size_t first) {
  Values out;
  for (size_t i = first; i < n.results.size(); ++i) out.push_back(n.result(static_cast<int>(i)));
  return out;
}

Value zeros(Function& f, const Type& t) { return ops::full(f, t.dtype, t.dims, 0); }

// ---- scan ---------------------------------------------------------------------------------------

// Parameter i of the body: 0 is the index, then carries, slices, constants.
struct ScanPlan {
  ops::ScanLayout layout;
  std::vector<bool> seeded, wanted;

  ScanPlan(const Node& n, const Values& cotangents, const std::vector<bool>& needs) : layout(n) {
    const Region& body = *n.regions[0];
    wanted.push_back(false);
    for (size_t i = 0; i < n.operands.size(); ++i) {
      bool carry = i < layout.carries && is_float(n.operands[i].dtype());
      wanted.push_back(carry || needs[i]);
    }
    for (size_t i = 0; i < body.results.size(); ++i) {
      bool carry = i < layout.carries && is_float(body.results[i].dtype());
      seeded.push_back(carry || (i >= layout.carries && cotangents[i]));
    }
  }
  bool is_carry(size_t p) const { return p >= 1 && p <= layout.carries; }
  bool is_slice(size_t p) const { return p > layout.carries && p <= layout.carries + layout.xs; }
  bool is_constant(size_t p) const { return p > layout.carries + layout.xs; }
};

// What the reverse scan's carry starts from: the cotangents of the forward carry, then a zero per
// constant whose gradient is summed over the steps.
Values initial_carries(const Node& n, const Values& c, const ScanPlan& plan, const Scratch& s) {
  Values out;
  for (size_t i = 0; i < plan.layout.carries; ++i) {
    if (!s.cotangents[i]) continue;
    out.push_back(c[i] ? c[i] : zeros(*n.function, s.cotangents[i].type()));
  }
  for (size_t p = 1; p < s.params.size(); ++p) {
    if (plan.is_constant(p) && s.gradients[p]) {
      out.push_back(zeros(*n.function, s.params[p].type()));
    }
  }
  return out;
}

// The reverse scan's operands and body parameters are built side by side.
class ReverseScan {
 public:
  ReverseScan(Node& n, const Values& c, const ScanPlan& plan, const Scratch& s, const Values& saved,
              const Values& stacks)
      : n_(n),
        f_(*n.function),
        plan_(plan),
        s_(s),
        starts_(initial_carries(n, c, plan, s)),
        scope_(*n.function) {
    map_[s.params[0]] = scope_.parameter(s.params[0].type());
    carries();
    size_t first = operands_.size();
    slices(c, saved, stacks);
    xs_ = operands_.size() - first;
    for (size_t p = 1; p < s.params.size(); ++p) {
      if (plan.is_constant(p)) add(s.params[p], n.operands[p - 1]);
    }
  }

  Values run() {
    Values results = body_results();
    scope_.close(std::move(results));
    ops::ScanOptions o;
    o.length = plan_.layout.length;
    o.reverse = !plan_.layout.reverse;
    o.x_axes = x_axes_;
    o.y_axes = y_axes_;
    o.x_parts = x_parts_;
    o.y_parts = y_parts_;
    Node& back = ops::scan_node(f_, operands_, carried_, xs_, o, scope_.take());
    Values out(n_.operands.size());
    for (size_t i = 0; i < targets_.size(); ++i) {
      out[targets_[i]] = back.result(static_cast<int>(i));
    }
    return out;
  }

 private:
  void add(const Value& inside, const Value& outside) {
    map_[inside] = scope_.parameter(inside.type());
    operands_.push_back(outside);
  }

  // Cotangents of the carries, then accumulators of the constants' gradients.
  void carries() {
    for (size_t i = 0; i < plan_.layout.carries; ++i) {
      if (!s_.cotangents[i]) continue;
      add(s_.cotangents[i], starts_[operands_.size()]);
      targets_.push_back(i);
    }
    for (size_t p = 1; p < s_.params.size(); ++p) {
      if (!plan_.is_constant(p) || !s_.gradients[p]) continue;
      sums_.push_back(scope_.parameter(s_.params[p].type()));
      operands_.push_back(starts_[operands_.size()]);
      targets_.push_back(p - 1);
    }
    carried_ = operands_.size();
  }

  void slices(const Values& c, const Values& saved, const Values& stacks) {
    const ops::ScanLayout& l = plan_.layout;
    for (size_t p = 1; p < s_.params.size(); ++p) {
      if (!plan_.is_slice(p)) continue;
      add(s_.params[p], n_.operands[p - 1]);
      x_axes_.push_back(l.x_axes[p - 1 - l.carries]);
      x_parts_.push_back(l.x_parts[p - 1 - l.carries]);
    }
    for (size_t i = 0; i < saved.size(); ++i) {
      add(saved[i], stacks[i]);
      map_[saved[i]] = brought_back(map_[saved[i]], ops::remat_of(n_));
      x_axes_.push_back(0);
      x_parts_.emplace_back();
    }
    for (size_t i = l.carries; i < s_.cotangents.size(); ++i) {
      if (!s_.cotangents[i]) continue;
      add(s_.cotangents[i], c[i]);
      x_axes_.push_back(l.y_axes[i - l.carries]);
      x_parts_.push_back(l.y_parts[i - l.carries]);
    }
  }

  Values body_results() {
    const ops::ScanLayout& l = plan_.layout;
    Values carry, ys;
    size_t sum = 0;
    for (size_t p = 1; p < s_.params.size(); ++p) {
      Value g = s_.gradients[p];
      if (plan_.is_carry(p) && s_.cotangents[p - 1]) {
        carry.push_back(g ? copy(g) : zeros(f_, s_.params[p].type()));
      } else if (plan_.is_constant(p) && g) {
        carry.push_back(ops::add(sums_[sum++], copy(g)));
      } else if (plan_.is_slice(p) && g) {
        ys.push_back(copy(g));
        y_axes_.push_back(l.x_axes[p - 1 - l.carries]);
        y_parts_.push_back(l.x_parts[p - 1 - l.carries]);
        targets_.push_back(p - 1);
      }
    }
    append(carry, ys);
    return carry;
  }

  Value copy(const Value& v) { return ir::copy_values(f_, std::span(&v, 1), map_)[0]; }

  Node& n_;
  Function& f_;
  const ScanPlan& plan_;
  const Scratch& s_;
  Values starts_;  // made before the loop's region is opened
  RegionScope scope_;
  ValueMap map_;
  Values operands_, sums_;
  size_t carried_ = 0, xs_ = 0;
  Dims x_axes_, y_axes_;
  std::vector<ops::StackParts> x_parts_, y_parts_;
  std::vector<size_t> targets_;  // operand whose gradient result i is
};

Values scan_gradient(Node& n, const Values& c, const std::vector<bool>& needs) {
  ScanPlan plan(n, c, needs);
  Scratch s = differentiate(*n.function, *n.regions[0], plan.seeded, plan.wanted);
  ValueSet at_hand;
  for (size_t p = 0; p < s.params.size(); ++p) {
    if (!plan.is_carry(p)) at_hand.insert(s.params[p]);
  }
  Values saved = residuals(s, ops::remat_of(n), at_hand);
  size_t first = n.results.size();
  extend_forward(n, s, saved);
  Dims y_axes = plan.layout.y_axes;
  for (const Value& v : saved) {
    y_axes.push_back(0);
    n.results.push_back(ops::stacked(v.type(), plan.layout.length, 0));
  }
  n.attributes.set("y_axes", y_axes);
  return ReverseScan(n, c, plan, s, saved, results_from(n, first)).run();
}

// ---- call and if --------------------------------------------------------------------------------

std::vector<bool> present(const Values& values) {
  std::vector<bool> out;
  for (const Value& v : values) out.push_back(static_cast<bool>(v));
  return out;
}

Values call_gradient(Node& n, const Values& c, const std::vector<bool>& needs) {
  Function& f = *n.function;
  Remat remat = ops::remat_of(n);
  Scratch s = differentiate(f, *n.regions[0], present(c), needs);
  ValueSet at_hand(s.params.begin(), s.params.end());
  Values saved = residuals(s, remat, at_hand);
  size_t first = n.results.size();
  extend_forward(n, s, saved);
  for (const Value& v : saved) n.results.push_back(v.type());
  Values inside = s.params, outside = n.operands;
  append(inside, saved);
  for (const Value& v : results_from(n, first)) outside.push_back(brought_back(v, remat));
  for (size_t i = 0; i < c.size(); ++i) {
    if (!c[i]) continue;
    inside.push_back(s.cotangents[i]);
    outside.push_back(c[i]);
  }
  // The barrier ties the recomputation to the cotangents: without it the compiler would merge it
  // with the forward pass and keep the values alive after all.
  if (remat.policy != Remat::Policy::none) outside = ops::optimization_barrier(outside);
  ValueMap map;
  for (size_t i = 0; i < inside.size(); ++i) map[inside[i]] = outside[i];
  Values out;
  for (const Value& g : s.gradients) {
    out.push_back(g ? ir::copy_values(f, std::span(&g, 1), map)[0] : Value{});
  }
  return out;
}

// The branch taken is computed again inside a second `if`, followed by its reverse sweep.
Values if_gradient(Node& n, const Values& c, const std::vector<bool>& needs) {
  Function& f = *n.function;
  std::vector<bool> wanted(needs.begin() + 1, needs.end());
  auto branch = [&](const Region& body) {
    Scratch s = differentiate(f, body, present(c), wanted);
    ValueMap map;
    for (size_t i = 0; i < s.params.size(); ++i) map[s.params[i]] = n.operands[i + 1];
    for (size_t i = 0; i < c.size(); ++i) {
      if (c[i]) map[s.cotangents[i]] = c[i];
    }
    Values out;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const Value& g = s.gradients[i];
      out.push_back(g ? ir::copy_values(f, std::span(&g, 1), map)[0]
                      : zeros(f, n.operands[i + 1].type()));
    }
    return out;
  };
  Values g = ops::if_(
      n.operands[0], [&] { return branch(*n.regions[0]); }, [&] { return branch(*n.regions[1]); });
  Values out(n.operands.size());
  size_t at = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) out[i + 1] = g[at++];
  }
  return out;
}

}  // namespace

Values region_gradient(Node& n, const Values& cotangents, const std::vector<bool>& needs) {
  if (n.def == &ops::kScan) return scan_gradient(n, cotangents, needs);
  if (n.def == &ops::kCall) return call_gradient(n, cotangents, needs);
  invariant(n.def == &ops::kIf, "transform.region_op", "a scan, call or if, not " + place(n));
  return if_gradient(n, cotangents, needs);
}

}  // namespace strata::transform
