// For the tests of room nn: a toy layer, a model of a stack of them, and running modules.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strata/nn/layer_stack.h"
#include "strata/nn/linear.h"
#include "strata/nn/token_context.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/elementwise.h"
#include "strata/testing/executor.h"
#include "strata/testing/random.h"

namespace strata::nn {

using Tensors = std::vector<HostTensor>;

// h' = tanh(h Wᵀ) + h + the layer's inputs; h' is also an output.
class ToyLayer : public Layer {
 public:
  ToyLayer(Module* parent, std::string name, int64_t size, bool bias = false)
      : Layer(parent, std::move(name)), linear_(this, "linear", {size, size}, bias) {}

  LayerResult forward(const Context& context, const ir::Values& carry, const ir::Values& inputs,
                      const TokenContext&) const override {
    ir::Value h = ops::tanh(linear_(context, carry[0])) + carry[0];
    for (const ir::Value& x : inputs) h = h + x;
    return {{h}, {h}};
  }
  std::string describe() const override { return "ToyLayer"; }

 private:
  Linear linear_;
};

class ToyModel : public Module {
 public:
  explicit ToyModel(int64_t layers, int64_t size = 3) : Module(nullptr, ""), stack(this, "layers") {
    for (int64_t i = 0; i < layers; ++i) stack.emplace<ToyLayer>(size);
  }
  std::string describe() const override { return "ToyModel"; }

  LayerStack stack;
};

}  // namespace strata::nn
