#include "strata/ops/reduce.h"

#include <numeric>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/cumulative.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

// x's dims with size 1 at the reduced axes, so that a reduced value broadcasts back.
Dims kept_dims(const Dims& dims, const Dims& axes) {
  Dims out = dims;
  for (int64_t a : axes) out[static_cast<size_t>(a)] = 1;
  return out;
}

Value spread(const Value& reduced, const Value& like, const Dims& axes) {
  return broadcast_to(reshape(reduced, kept_dims(like.dims(), axes)), like.dims());
}

std::vector<Type> reduce_shape(const Node& n) {
  const Type& x = n.operands[0].type();
  if (n.operands[1].type() != Type{x.dtype, {}}) misuse(n, "a rank-0 start", operand_types(n));
  return {{x.dtype, without(x.dims, n.attributes.get<Dims>("axes"))}};
}

// Each element's share is the product of the others: those before it times those after it, so that
// zeros need no division.
Value product_gradient(Value x, Value cotangent, const Dims& axes) {
  Dims all(x.dims().size());
  std::iota(all.begin(), all.end(), 0);
  Dims order = without(all, axes);
  order.insert(order.end(), axes.begin(), axes.end());
  Dims inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  Value moved = transpose(x, order);
  Dims flat = cotangent.dims();
  flat.push_back(-1);
  Value rows = reshape(moved, flat);
  Value others = cumulative_product(rows, -1, {.exclusive = true}) *
                 cumulative_product(rows, -1, {.reverse = true, .exclusive = true});
  flat.back() = 1;
  return transpose(reshape(others * reshape(cotangent, flat), moved.dims()), inverse);
}

Values reduce_gradient(Node& n, Cotangents c) {
  const std::string& kind = n.attributes.get<std::string>("kind");
  const Dims& axes = n.attributes.get<Dims>("axes");
  Value x = n.operands[0];
  if (kind == "and" || kind == "or") return {Value{}, Value{}};
  if (kind == "sum") return {spread(c[0], x, axes), Value{}};
  if (kind == "product") return {product_gradient(x, c[0], axes), Value{}};
  Value attains = compare(x, spread(n.result(), x, axes), "EQ");
  Value ones = select(attains, full_like(x, 1), zeros_like(x));
  Value count = reduce_sum(ones, axes);
  return {ones * spread(c[0] / count, x, axes), Value{}};
}

Value start(const Value& x, double value) { return scalar(x.function(), x.dtype(), value); }

using Combine = Value (*)(Value, Value);

// `first` is rank 0.
Value reduce(std::string_view kind, Combine combine, Value first, Value x, Dims axes, bool keep) {
  axes = normal_axes(std::move(axes), x.rank(), "reduce_" + std::string(kind));
  if (axes.empty()) return x;
  Function& f = x.function();
  ir::RegionScope scope(f);
  Value a = scope.parameter({x.dtype(), {}});
  Value b = scope.parameter({x.dtype(), {}});
  scope.close({combine(a, b)});
  std::vector<std::unique_ptr<ir::Region>> regions;
  regions.push_back(scope.take());
  Value out =
      f.add(kReduce, {x, first}, {{"kind", std::string(kind)}, {"axes", axes}}, std::move(regions))
          .result();
  return keep ? reshape(out, kept_dims(x.dims(), axes)) : out;
}

}  // namespace

constexpr OpDef kReduce{
    .name = "reduce",
    .arity = 2,
    .shape = reduce_shape,
    .gradient = ir::rule(reduce_gradient),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"dimensions", array_text(n.attributes.get<Dims>("axes"))}};
    },
};

Value reduce_sum(Value x, Dims axes, bool keep) {
  return reduce("sum", add, start(x, 0), x, std::move(axes), keep);
}
Value reduce_max(Value x, Dims axes, bool keep) {
  return reduce("max", maximum, lowest(x.function(), x.dtype()), x, std::move(axes), keep);
}
Value reduce_min(Value x, Dims axes, bool keep) {
  return reduce("min", minimum, highest(x.function(), x.dtype()), x, std::move(axes), keep);
}
Value reduce_product(Value x, Dims axes, bool keep) {
  return reduce("product", multiply, start(x, 1), x, std::move(axes), keep);
}
Value reduce_and(Value x, Dims axes, bool keep) {
  return reduce("and", and_, start(x, 1), x, std::move(axes), keep);
}
Value reduce_or(Value x, Dims axes, bool keep) {
  return reduce("or", or_, start(x, 0), x, std::move(axes), keep);
}

Value reduce_mean(Value x, Dims axes, bool keep) {
  int64_t before = x.type().elements();
  Value sum = reduce_sum(x, std::move(axes), keep);
  int64_t after = sum.type().elements();
  return sum * (after == 0 ? 0.0 : static_cast<double>(after) / static_cast<double>(before));
}

Value argmax(Value x, int64_t axis) {
  axis = normal_axis(axis, x.rank(), "argmax");
  int64_t size = x.dim(axis);
  // Comparisons and the plug-ins' maxima treat NaN in ways of their own.
  if (is_float(x.dtype())) {
    Value infinity = broadcast_to(highest(x.function(), x.dtype()), x.dims());
    x = select(compare(x, x, "NE"), infinity, x);
  }
  Value best = compare(x, spread(reduce_max(x, {axis}), x, {axis}), "EQ");
  Value index = iota(x.function(), DType::i32, x.dims(), axis);
  Value beyond = full(x.function(), DType::i32, x.dims(), static_cast<double>(size));
  return reduce_min(select(best, index, beyond), {axis});
}

Value log_sum_exp(Value x, int64_t axis) {
  axis = normal_axis(axis, x.rank(), "log_sum_exp");
  Value top = stop_gradient(reduce_max(x, {axis}, true));
  top = select(is_finite(top), top, zeros_like(top));
  return log(reduce_sum(exponential(x - top), {axis}, true)) + top;
}

Value log_softmax(Value x, int64_t axis) { return x - log_sum_exp(x, axis); }

Value softmax(Value x, int64_t axis) {
  axis = normal_axis(axis, x.rank(), "softmax");
  Value top = stop_gradient(reduce_max(x, {axis}, true));
  Value weights = exponential(x - select(is_finite(top), top, zeros_like(top)));
  Value sum = reduce_sum(weights, {axis}, true);
  // An all-masked row sums to 0; dividing by 1 there keeps value and gradient at 0.
  return weights / select(compare(sum, zeros_like(sum), "EQ"), full_like(sum, 1), sum);
}

}  // namespace strata::ops
