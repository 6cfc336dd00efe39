// Gated feed-forward: down(silu(gate(x)) · up(x)).
#pragma once

#include <string>

#include "strata/nn/linear.h"

namespace strata::nn {

class GatedMlp : public Module {
 public:
  GatedMlp(Module* parent, std::string name, int64_t hidden, int64_t intermediate, bool bias);
  ir::Value operator()(const Context& context, ir::Value x) const;
  std::string describe() const override;

 private:
  Linear gate_, up_, down_;
  Tap hidden_;  // what goes into down_proj
};

}  // namespace strata::nn
