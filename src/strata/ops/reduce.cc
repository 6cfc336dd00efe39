#include "strata/ops/reduce.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
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

Values reduce_gradient(Node& n, Cotangents c) {
  const std::string& kind = n.attributes.get<std::string>("kind");
  const Dims& axes = n.attributes.get<Dims>("axes");
  Value x = n.operands[0];
  if (kind == "and" || kind == "or") return {Value{}, Value{}};
  if (kind == "sum") return {spread(c[0], x, axes), Value{}};
  if (kind == "product") {
    unimplemented({.id = "ops.reduce_gradient",
                   .where = place(n),
                   .expected = "a reduction with a gradient rule",
                   .got = "reduce_product"});
  }
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
  // NaN never equals the maximum, so it is ranked above everything by hand.
  Value top = spread(reduce_max(x, {axis}), x, {axis});
  Value best = or_(compare(x, top, "EQ"), compare(x, x, "NE"));
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
