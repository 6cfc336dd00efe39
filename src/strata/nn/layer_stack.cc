#include "strata/nn/layer_stack.h"

#include "strata/base/error.h"
#include "strata/nn/stack_runner.h"

namespace strata::nn {
namespace {

bool is_stack(const Module* module) { return dynamic_cast<const LayerStack*>(module) != nullptr; }

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace

std::string LayerStack::describe() const {
  return "LayerStack(" + std::to_string(layers_.size()) + ")";
}

LayerResult LayerStack::run(const Context& context, const ir::Values& carry,
                            const ir::Values& inputs, const TokenContext& tokens) const {
  if (layers_.empty()) return {carry, {}};
  auto count = static_cast<int64_t>(layers_.size());
  for (const ir::Value& v : inputs) {
    require(v.rank() > 0 && v.dim(0) == count,
            {.id = "nn.per_layer_input",
             .where = path(),
             .expected = "per-layer inputs with " + std::to_string(count) + " layers on dim 0",
             .got = ir::text(v.type())});
  }
  return StackRunner(*this, context, carry, tokens).run(inputs);
}

EachResult LayerStack::run_each(const Context& context, const ir::Values& carry,
                                const std::vector<ir::Values>& inputs,
                                const TokenContext& tokens) const {
  require(inputs.empty() || inputs.size() == layers_.size(),
          {.id = "nn.inputs_each",
           .where = path(),
           .expected = "inputs for " + std::to_string(layers_.size()) + " layers, or none",
           .got = "inputs for " + std::to_string(inputs.size())});
  if (layers_.empty()) return {carry, {}};
  return StackRunner(*this, context, carry, tokens).run_each(inputs);
}

std::string common_path(const Module& module) {
  if (module.parent() == nullptr) return module.name();
  return joined(common_path(*module.parent()), is_stack(module.parent()) ? "*" : module.name());
}

std::string common_path(const Tap& tap) { return joined(common_path(tap.owner()), tap.name()); }

std::vector<const Tap*> taps_of(const Module& layer) {
  std::vector<const Tap*> out = layer.taps();
  for (const Module* m : layer.children()) {
    if (is_stack(m)) continue;
    std::vector<const Tap*> below = taps_of(*m);
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

}  // namespace strata::nn
