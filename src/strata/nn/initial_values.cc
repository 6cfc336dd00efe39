#include "strata/nn/initial_values.h"

#include <unordered_map>

#include "strata/base/error.h"
#include "strata/nn/context.h"
#include "strata/nn/layer_stack.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/shape.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::LayerRun;

// Visits the tree; a scanned run is traced once, in a loop over its layers.
class Collector {
 public:
  explicit Collector(const Structure& structure) : structure_(structure) {}

  void visit(const Context& context, const Module& module) {
    if (const auto* stack = dynamic_cast<const LayerStack*>(&module)) {
      if (stack->size() > 0) visit_stack(context, *stack);
      return;
    }
    for (const InitialValue& v : module.initial_values(context)) values_[v.field] = v.value;
    for (const Module* child : module.children()) visit(context, *child);
  }

  // By the first member of a stacked slot; null where there is none.
  Value of(const Param& param) const {
    auto it = values_.find(&param);
    return it == values_.end() ? Value{} : it->second;
  }

 private:
  void visit_stack(const Context& context, const LayerStack& stack) {
    for (const LayerRun& run : structure_.plan(stack).runs) {
      if (run.scanned) {
        visit_scanned(context, stack, run);
        continue;
      }
      for (int64_t i = run.first; i < run.first + run.layers(); ++i) {
        Value index = ops::scalar(context.function(), DType::i32, static_cast<double>(i));
        const Layer& layer = stack.layer(static_cast<size_t>(i));
        LayerScope scope(context, layer, index, {});
        visit(scope.context(), layer);
      }
    }
  }

  void visit_scanned(const Context& context, const LayerStack& stack, const LayerRun& run) {
    const int64_t param_axis = structure_.options().param_axis;
    auto axis_of = [&](const Param& p) {
      return sharding::normalised_stack_axis(param_axis, p.type().rank(), p.path());
    };
    for (int64_t slot = 0; slot < run.cycle; ++slot) {
      const Layer& layer = stack.layer(static_cast<size_t>(run.first + slot));
      std::vector<const Param*> own = structure_.own_params(layer);
      ops::ScanOptions options;
      options.length = run.repeats;
      Values xs;
      for (const Param* p : own) {
        xs.push_back(context(*p));
        options.x_axes.push_back(axis_of(*p));
      }
      std::vector<const Param*> fields = fields_of(context, layer, own);
      if (fields.empty()) continue;
      for (const Param* p : fields) options.y_axes.push_back(axis_of(*p));
      auto body = [&](Value step, const Values&, const Values& slices) {
        Value index = step * static_cast<double>(run.cycle) + static_cast<double>(run.first + slot);
        Collector inside(structure_);
        LayerScope scope(context, layer, index, slices);
        inside.visit(scope.context(), layer);
        ops::Step out;
        for (const Param* p : fields) out.ys.push_back(inside.of(*p));
        return out;
      };
      Values ys = ops::scan(context.function(), {}, xs, options, body).ys;
      for (size_t i = 0; i < fields.size(); ++i) values_[fields[i]] = ys[i];
    }
  }

  // The layer's own fields that have an initial value. What is traced to find them is dropped.
  std::vector<const Param*> fields_of(const Context& context, const Layer& layer,
                                      const std::vector<const Param*>& own) const {
    ir::RegionScope scratch(context.function());
    Values slices;
    for (const Param* p : own) slices.push_back(scratch.parameter({DType::f32, p->type().sizes()}));
    Value index = scratch.parameter({DType::i32, {}});
    Collector probe(structure_);
    LayerScope scope(context, layer, index, slices);
    probe.visit(scope.context(), layer);
    std::vector<const Param*> fields;
    for (const Param* p : own) {
      if (probe.of(*p)) fields.push_back(p);
    }
    scratch.close({});
    return fields;
  }

  const Structure& structure_;
  std::unordered_map<const Param*, Value> values_;
};

}  // namespace

InitialValues initial_values(const Module& root, const Structure& structure) {
  InitialValues out;
  out.function = std::make_unique<ir::Function>("initial_values");
  ir::Function& f = *out.function;
  f.set_mesh(structure.mesh());
  const auto& slots = structure.manifest().slots();
  Values values;
  for (const sharding::Slot& s : slots) {
    // No rule reads a field that itself has an initial value.
    values.push_back(s.kind == sharding::Kind::param
                         ? f.declare(s.type, s.name)
                         : ops::full(f, s.type.dtype, s.type.sizes(), 0));
  }
  Value key = f.parameter({DType::u32, {2}}, "key");
  Context context = Context(f, structure, values).with_random({key, ops::scalar(f, DType::i32, 0)});
  Collector collector(structure);
  collector.visit(context, root);
  Values results;
  std::vector<ir::Port> ports;
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::vector<const Param*>& members = structure.members(i);
    Value value = collector.of(*members.front());
    if (!value) continue;
    invariant(value.dims() == slots[i].type.sizes(), "nn.initial_dims", "a value for all layers");
    results.push_back(ops::convert(value, slots[i].type.dtype));
    ports.push_back({slots[i].name, "", ir::axes_of(slots[i].type)});
    out.slots.push_back(i);
  }
  f.set_results(results, ports);
  return out;
}

}  // namespace strata::nn
