#include "strata/optim/clip.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"

namespace strata::optim {
namespace {

using ir::Value;

Value sum_all(Value x) {
  Dims axes;
  for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  return axes.empty() ? x : ops::reduce_sum(x, axes);
}

}  // namespace

Value sum_of_squares(ir::Function& function, const ir::Values& leaves) {
  Value total = ops::scalar(function, DType::f32, 0);
  for (const Value& leaf : leaves) {
    Value x = ops::convert(leaf, DType::f32);
    total = total + sum_all(x * x);
  }
  return total;
}

Value all_finite(ir::Function& function, const ir::Values& leaves) {
  Value total = ops::scalar(function, DType::f32, 0);
  for (const Value& leaf : leaves) total = total + sum_all(ops::convert(leaf, DType::f32));
  return ops::is_finite(total);
}

Value clip_scale(Value norm, Value limit) {
  Value one = ops::full_like(norm, 1);
  return ops::select(ops::compare(norm, limit, "LE"), one, limit / norm);
}

}  // namespace strata::optim
