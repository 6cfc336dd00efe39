// LayerStack: the repeated layers of a model, scanned after construction.
//
// A model adds its layers one by one and calls `run`; nothing in a model file mentions scanning.
// `plan_layers` decides from structural fingerprints which layers run as the body of one loop (a
// cycle of layers that repeats), and `run` follows the plan: a scanned run is one loop over stacked
// parameters, an unrolled run is traced layer by layer. Both compute the same values.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/nn/context.h"
#include "strata/nn/module.h"
#include "strata/nn/structure.h"

namespace strata::nn {

struct TokenContext;

struct LayerResult {
  // What goes to the next layer: as many values as came in, of their dims. A float comes back in
  // the element type in which it came, so that the residual stream keeps its type.
  ir::Values carry;
  ir::Values outputs;  // state (cache entries) and its kind: the same types in each layer
};

// One repeated layer.
class Layer : public Module {
 public:
  using Module::Module;
  // `inputs` are this layer's share of the stack's per-layer inputs; `tokens` is shared by all.
  virtual LayerResult forward(const Context& context, const ir::Values& carry,
                              const ir::Values& inputs, const TokenContext& tokens) const = 0;
};

// What `run_each` gives: outputs[i] are layer i's, and may differ from layer to layer.
struct EachResult {
  ir::Values carry;
  std::vector<ir::Values> outputs;
};

class LayerStack : public Module {
 public:
  using Module::Module;

  // Builds a layer of class L whose parent is this stack and whose name is its index.
  template <class L, class... Args>
  L& emplace(Args&&... args) {
    auto layer =
        std::make_unique<L>(this, std::to_string(layers_.size()), std::forward<Args>(args)...);
    L& out = *layer;
    layers_.push_back(std::move(layer));
    return out;
  }

  // The number of layers.
  size_t size() const { return layers_.size(); }
  const Layer& layer(size_t i) const { return *layers_[i]; }
  std::string describe() const override;

  // Passes `carry` through all layers. `inputs` are stacked per-layer inputs: dim 0 is the layer.
  // The result's outputs are stacked alike, and so are the taps that `context` wants. A stack of no
  // layers returns the carry untouched. Throws invalid_argument naming the layer when inputs, carry
  // or outputs do not fit.
  LayerResult run(const Context& context, const ir::Values& carry, const ir::Values& inputs,
                  const TokenContext& tokens) const;

  // The same layer by layer, whatever the plan says, with inputs[i] for layer i (or none at all)
  // and outputs apart: decoding wants each layer's cache where it lies, not a copy in a stack. The
  // parameters of a scanned run are sliced, which costs one copy of them.
  EachResult run_each(const Context& context, const ir::Values& carry,
                      const std::vector<ir::Values>& inputs, const TokenContext& tokens) const;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

// The path of a module with `*` for the number of each layer: what all layers of a stack call it,
// "model.layers.*.mlp".
std::string common_path(const Module& module);
std::string common_path(const Tap& tap);

// The taps below a layer in order of declaration, without those of stacks inside of it.
std::vector<const Tap*> taps_of(const Module& layer);

}  // namespace strata::nn
