#include "strata/nn/linear.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/shape.h"

namespace strata::nn {

ir::Value project(ir::Value x, ir::Value weight) {
  constexpr int64_t kFewRows = 64;
  if (x.rank() != 3 || x.dim(0) * x.dim(1) > kFewRows) return ops::linear(x, weight);
  ir::Value y = ops::dot_general(weight, x, {.lhs_contract = {1}, .rhs_contract = {2}});
  return ops::transpose(y, {1, 2, 0});
}

Linear::Linear(Module* parent, std::string name, const LinearDims& d, bool bias)
    : Module(parent, std::move(name)),
      weight_(
          this, "weight",
          {DType::f32, {{.size = d.out, .name = d.out_name}, {.size = d.in, .name = d.in_name}}}) {
  if (bias) {
    bias_.emplace(this, "bias",
                  sharding::ParamType{DType::f32, {{.size = d.out, .name = d.out_name}}});
  }
}

ir::Value Linear::operator()(const Context& context, ir::Value x) const {
  ir::Value y = project(x, ops::convert(context(weight_), x.dtype()));
  if (bias_) y = y + ops::convert(context(*bias_), x.dtype());
  return y;
}

std::string Linear::describe() const { return "Linear"; }

Embedding::Embedding(Module* parent, std::string name, int64_t vocabulary, int64_t size)
    : Module(parent, std::move(name)),
      weight_(
          this, "weight",
          {DType::f32, {{.size = vocabulary, .name = "vocab"}, {.size = size, .name = "embed"}}}) {}

ir::Value Embedding::operator()(const Context& context, ir::Value ids) const {
  return ops::take(context(weight_), ids, 0);
}

std::string Embedding::describe() const { return "Embedding"; }

}  // namespace strata::nn
