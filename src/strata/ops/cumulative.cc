#include "strata/ops/cumulative.h"

#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Combine = Value (*)(Value, Value);

// x moved by `steps` along the axis (towards the end, or the start in reverse); `start` fills in.
Value shifted(Value x, Value start, int64_t axis, int64_t steps, bool reverse) {
  Dims low(x.dims().size(), 0), high = low;
  low[static_cast<size_t>(axis)] = reverse ? -steps : steps;
  high[static_cast<size_t>(axis)] = reverse ? steps : -steps;
  return pad(x, start, low, high);
}

Value running(Combine combine, Value start, Value x, int64_t axis, Running how) {
  int64_t size = x.dim(axis);
  if (how.exclusive && size > 0) x = shifted(x, start, axis, 1, how.reverse);
  for (int64_t steps = 1; steps < size; steps *= 2) {
    x = combine(shifted(x, start, axis, steps, how.reverse), x);
  }
  return x;
}

}  // namespace

Value cumulative_sum(Value x, int64_t axis, Running how) {
  axis = normal_axis(axis, x.rank(), "cumulative_sum");
  return running(add, scalar(x.function(), x.dtype(), 0), x, axis, how);
}

Value cumulative_product(Value x, int64_t axis, Running how) {
  axis = normal_axis(axis, x.rank(), "cumulative_product");
  return running(multiply, scalar(x.function(), x.dtype(), 1), x, axis, how);
}

Value cumulative_max(Value x, int64_t axis, Running how) {
  axis = normal_axis(axis, x.rank(), "cumulative_max");
  return running(maximum, lowest(x.function(), x.dtype()), x, axis, how);
}

}  // namespace strata::ops
