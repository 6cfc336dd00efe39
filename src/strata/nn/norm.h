// RMS normalisation.
#pragma once

#include <string>

#include "strata/nn/context.h"
#include "strata/nn/module.h"

namespace strata::nn {

// x̂ = x · rsqrt(mean x² + eps) over the last dim in float32, cast to x's type, times the weight in
// that type (llama, qwen3, glm: see design of model families; HF LlamaRMSNorm).
class RmsNorm : public Module {
 public:
  // `logical` names the normalised dim for sharding rules.
  RmsNorm(Module* parent, std::string name, int64_t size, double eps, std::string logical);
  ir::Value operator()(const Context& context, ir::Value x) const;
  std::string describe() const override;

 private:
  double eps_;
  Param weight_;
};

}  // namespace strata::nn
