#include "strata/transform/vjp.h"

#include <unordered_map>
#include <unordered_set>

#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/transform/region_vjp.h"

namespace strata::transform {
namespace {

using ir::Node;
using ir::Type;
using ir::Value;
using ir::Values;

class Sweep {
 public:
  Sweep(const Values& outputs, const Values& inputs) {
    for (const Value& v : inputs) {
      if (v) wanted_.insert(v);
    }
    ir::Function* f = nullptr;
    for (const Value& v : outputs) f = &v.function();
    if (f == nullptr) return;
    order_ = ir::post_order(outputs, &f->current());
    for (Node* n : order_) {
      for (const Value& v : n->operands) {
        if (depends(v)) reached_.insert(n);
      }
    }
  }

  void seed(const Value& output, const Value& cotangent) {
    if (!cotangent) return;
    if (cotangent.type() != output.type()) {
      fail({.id = "transform.cotangent_type",
            .where = "vjp of " + place(*output.node),
            .expected = "a cotangent of type " + ir::text(output.type()),
            .got = ir::text(cotangent.type())});
    }
    accumulate(output, cotangent);
  }

  void run() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      if (reached_.contains(*it)) step(**it);
    }
  }

  Value cotangent(const Value& v) const {
    auto it = cotangents_.find(v);
    return it == cotangents_.end() ? Value{} : it->second;
  }

 private:
  // Whether a gradient with respect to v is needed: v is an input or computed from one.
  bool depends(const Value& v) const { return wanted_.contains(v) || reached_.contains(v.node); }

  void accumulate(const Value& v, const Value& g) {
    auto [it, fresh] = cotangents_.try_emplace(v, g);
    if (!fresh) it->second = ops::add(it->second, g);
  }

  void step(Node& n) {
    Values c;
    bool any = false;
    for (int i = 0; i < static_cast<int>(n.results.size()); ++i) {
      c.push_back(cotangent(n.result(i)));
      any = any || c.back();
    }
    if (!any) return;
    ir::LocationScope at(*n.function, n.loc);
    Values g = gradients_of(n, c);
    if (g.empty()) return;
    invariant(g.size() == n.operands.size(), "transform.gradient_count",
              "one gradient per operand of " + place(n));
    for (size_t i = 0; i < g.size(); ++i) {
      const Value& v = n.operands[i];
      if (!g[i] || !depends(v) || !is_float(v.dtype())) continue;
      invariant(g[i].type() == v.type(), "transform.gradient_type",
                "a gradient of type " + ir::text(v.type()) + " from " + place(n) + ", not " +
                    ir::text(g[i].type()));
      accumulate(v, g[i]);
    }
  }

  Values gradients_of(Node& n, Values& c) {
    switch (n.def->gradient.state) {
      case ir::Gradient::State::none:
        return {};
      case ir::Gradient::State::region: {
        std::vector<bool> needs;
        for (const Value& v : n.operands) needs.push_back(depends(v) && is_float(v.dtype()));
        return region_gradient(n, c, needs);
      }
      case ir::Gradient::State::no_rule_yet:
        break;
      case ir::Gradient::State::rule:
        // Rules are written for present cotangents; only multi-result ops see absent ones.
        for (size_t i = 0; i < c.size(); ++i) {
          const Type& t = n.results[i];
          if (!c[i] && is_float(t.dtype)) c[i] = ops::full(*n.function, t.dtype, t.dims, 0);
        }
        return n.def->gradient.apply(n, c);
    }
    unimplemented({.id = "transform.no_gradient_rule",
                   .where = place(n),
                   .expected = "an op with a gradient rule",
                   .got = std::string(n.def->name),
                   .cure = "Wrap its input in stop_gradient if no gradient is meant"});
  }

  std::unordered_set<Value, ir::ValueHash> wanted_;
  std::unordered_set<const Node*> reached_;
  std::vector<Node*> order_;
  std::unordered_map<Value, Value, ir::ValueHash> cotangents_;
};

}  // namespace

Values vjp(const Values& outputs, const Values& cotangents, const Values& inputs) {
  require(outputs.size() == cotangents.size(),
          {.id = "transform.cotangent_count",
           .where = "vjp",
           .expected = "one cotangent per output",
           .got = std::to_string(cotangents.size()) + " for " + std::to_string(outputs.size())});
  Sweep sweep(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) sweep.seed(outputs[i], cotangents[i]);
  sweep.run();
  Values out;
  for (const Value& v : inputs) out.push_back(v ? sweep.cotangent(v) : Value{});
  return out;
}

Values gradient(Value loss, const Values& inputs) {
  require(loss && loss.rank() == 0 && is_float(loss.dtype()),
          {.id = "transform.loss_type",
           .where = "gradient",
           .expected = "a rank-0 float loss",
           .got = loss ? ir::text(loss.type()) : "a null value"});
  Values g = vjp({loss}, {ops::full_like(loss, 1)}, inputs);
  for (size_t i = 0; i < g.size(); ++i) {
    if (!g[i]) g[i] = ops::full_like(inputs[i], 0);
  }
  return g;
}

}  // namespace strata::transform
