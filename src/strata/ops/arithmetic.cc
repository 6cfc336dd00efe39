#include "strata/ops/arithmetic.h"

#include <algorithm>

#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/shape.h"

namespace strata::ops {

using ir::Value;

Value broadcast_to(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  size_t rank = x.dims().size();
  bool fits = rank <= dims.size();
  Dims axes, kept;
  for (size_t i = 0; fits && i < rank; ++i) {
    size_t at = dims.size() - rank + i;
    if (x.dims()[i] == dims[at]) {
      axes.push_back(static_cast<int64_t>(at));
      kept.push_back(dims[at]);
    } else {
      fits = x.dims()[i] == 1;
    }
  }
  if (!fits) {
    fail({.id = "ops.broadcast_to",
          .where = place(*x.node),
          .expected = "dims that stretch to " + shape_text(x.dtype(), dims),
          .got = ir::text(x.type())});
  }
  // Size-1 dims that stretch are dropped first: broadcast_in_dim then maps equal sizes only.
  if (kept != x.dims()) x = reshape(x, kept);
  return broadcast_in_dim(x, dims, axes);
}

std::pair<Value, Value> broadcast_together(Value x, Value y) {
  if (x.dims() == y.dims()) return {x, y};
  const Dims& a = x.dims();
  const Dims& b = y.dims();
  Dims dims(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t m = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t n = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (m != n && m != 1 && n != 1) {
      fail({.id = "ops.broadcast_together",
            .where = place(*x.node),
            .expected = "dims that broadcast together",
            .got = ir::text(x.type()) + " and " + ir::text(y.type())});
    }
    dims[dims.size() - 1 - i] = m == 1 ? n : m;
  }
  return {broadcast_to(x, dims), broadcast_to(y, dims)};
}

}  // namespace strata::ops

namespace strata::ir {
namespace {

Value like(const Value& x, double number) { return ops::full_like(x, number); }

Value apply(Value (*op)(Value, Value), Value x, Value y) {
  auto both = ops::broadcast_together(x, y);
  return op(both.first, both.second);
}

}  // namespace

Value operator+(Value x, Value y) { return apply(ops::add, x, y); }
Value operator-(Value x, Value y) { return apply(ops::subtract, x, y); }
Value operator*(Value x, Value y) { return apply(ops::multiply, x, y); }
Value operator/(Value x, Value y) { return apply(ops::divide, x, y); }
Value operator+(Value x, double y) { return ops::add(x, like(x, y)); }
Value operator-(Value x, double y) { return ops::subtract(x, like(x, y)); }
Value operator*(Value x, double y) { return ops::multiply(x, like(x, y)); }
Value operator/(Value x, double y) { return ops::divide(x, like(x, y)); }
Value operator+(double x, Value y) { return ops::add(like(y, x), y); }
Value operator-(double x, Value y) { return ops::subtract(like(y, x), y); }
Value operator*(double x, Value y) { return ops::multiply(like(y, x), y); }
Value operator/(double x, Value y) { return ops::divide(like(y, x), y); }
Value operator-(Value x) { return ops::negate(x); }

}  // namespace strata::ir
