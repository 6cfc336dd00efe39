#include "strata/nn/mlp.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/elementwise.h"

namespace strata::nn {

GatedMlp::GatedMlp(Module* parent, std::string name, int64_t hidden, int64_t intermediate,
                   bool bias)
    : Module(parent, std::move(name)),
      gate_(this, "gate_proj", {hidden, intermediate, "embed", "mlp"}, bias),
      up_(this, "up_proj", {hidden, intermediate, "embed", "mlp"}, bias),
      down_(this, "down_proj", {intermediate, hidden, "mlp", "embed"}, bias),
      hidden_(this, "mlp_hidden") {}

ir::Value GatedMlp::operator()(const Context& context, ir::Value x) const {
  ir::Value gate = gate_(context, x);
  ir::Value hidden = gate * ops::logistic(gate) * up_(context, x);
  hidden = context.lay_out(hidden, {"batch", "", "mlp"});
  return context.lay_out(down_(context, context.tap(hidden_, hidden)), {"batch", "", ""});
}

std::string GatedMlp::describe() const { return "GatedMlp(silu)"; }

}  // namespace strata::nn
