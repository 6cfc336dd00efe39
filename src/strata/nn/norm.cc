#include "strata/nn/norm.h"

#include <fmt/format.h>

#include "strata/ops/arithmetic.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"

namespace strata::nn {

RmsNorm::RmsNorm(Module* parent, std::string name, int64_t size, double eps, std::string logical)
    : Module(parent, std::move(name)),
      eps_(eps),
      weight_(this, "weight", {DType::f32, {{.size = size, .name = std::move(logical)}}}) {}

ir::Value RmsNorm::operator()(const Context& context, ir::Value x) const {
  ir::Value wide = ops::convert(x, DType::f32);
  ir::Value mean = ops::reduce_mean(wide * wide, {-1}, true);
  ir::Value normed = wide * ops::rsqrt(mean + eps_);
  return ops::convert(normed, x.dtype()) * ops::convert(context(weight_), x.dtype());
}

std::string RmsNorm::describe() const { return fmt::format("RmsNorm(eps={})", eps_); }

}  // namespace strata::nn
