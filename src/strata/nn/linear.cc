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

ir::Value Linear::own_kernel(const Context& context, DType compute) const {
  ir::Value kernel = ops::convert(context(weight_), compute);
  for (const auto& part : parts_) kernel = part->kernel(context, kernel);
  return kernel;
}

ir::Value Linear::operator()(const Context& context, ir::Value x) const {
  ir::Value y = project(x, own_kernel(context, x.dtype()));
  for (const auto& part : parts_) {
    if (ir::Value more = part->added(context, x)) y = y + ops::convert(more, x.dtype());
  }
  if (bias_) y = y + ops::convert(context(*bias_), x.dtype());
  return y;
}

ir::Value Linear::kernel(const Context& context) const {
  DType compute = context(weight_).dtype();
  ir::Value kernel = own_kernel(context, compute);
  for (const auto& part : parts_) {
    ir::Value more = part->added_kernel(context);
    if (!more) continue;
    kernel = ops::convert(ops::convert(kernel, DType::f32) + more, compute);
  }
  return kernel;
}

LinearDims Linear::dims() const {
  const std::vector<sharding::Dim>& d = weight_.type().dims;
  return {d[1].size, d[0].size, d[1].name, d[0].name};
}

std::string Linear::describe() const {
  std::string text = "Linear";
  for (const auto& part : parts_) text += " with " + part->describe();
  return text;
}

std::vector<InitialValue> Linear::initial_values(const Context& context) const {
  std::vector<InitialValue> all;
  for (const auto& part : parts_) {
    std::vector<InitialValue> more = part->initial_values(context, context(weight_));
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

ir::Value LinearPart::kernel(const Context&, ir::Value weight) const { return weight; }

ir::Value LinearPart::added(const Context&, ir::Value) const { return {}; }

ir::Value LinearPart::added_kernel(const Context&) const { return {}; }

std::vector<InitialValue> LinearPart::initial_values(const Context&, ir::Value) const { return {}; }

Embedding::Embedding(Module* parent, std::string name, int64_t vocabulary, int64_t size)
    : Module(parent, std::move(name)),
      weight_(
          this, "weight",
          {DType::f32, {{.size = vocabulary, .name = "vocab"}, {.size = size, .name = "embed"}}}) {}

ir::Value Embedding::operator()(const Context& context, ir::Value ids) const {
  if (ids.rank() != 2) return ops::take(context(weight_), ids, 0);
  return context.lay_out(ops::take(context(weight_), ids, 0), {"batch", "", ""});
}

std::string Embedding::describe() const { return "Embedding"; }

}  // namespace strata::nn
