#include "strata/ops/elementwise.h"

#include <cmath>
#include <numbers>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

enum class Kind { number, floating, integer, bits };

bool accepts(Kind kind, DType d) {
  switch (kind) {
    case Kind::number:
      return d != DType::pred;
    case Kind::floating:
      return is_float(d);
    case Kind::integer:
      return is_integer(d);
    case Kind::bits:
      return is_integer(d) || d == DType::pred;
  }
  return false;
}

constexpr std::string_view kKindNames[] = {"numbers", "floats", "integers",
                                           "integers or predicates"};

template <Kind kind>
std::vector<Type> same_types(const Node& n) {
  const Type& first = n.operands[0].type();
  bool same = true;
  for (const Value& v : n.operands) same = same && v.type() == first;
  if (!same || !accepts(kind, first.dtype)) {
    misuse(n, "equal types of " + std::string(kKindNames[static_cast<int>(kind)]),
           operand_types(n));
  }
  return {first};
}

template <Kind kind = Kind::floating>
constexpr OpDef unary(std::string_view name, Gradient gradient,
                      std::string_view dialect = "stablehlo") {
  return {.name = name,
          .arity = 1,
          .shape = same_types<kind>,
          .gradient = gradient,
          .cost = Cost::elementwise,
          .dialect = dialect};
}

template <Kind kind = Kind::number>
constexpr OpDef binary(std::string_view name, Gradient gradient) {
  return {.name = name,
          .arity = 2,
          .shape = same_types<kind>,
          .gradient = gradient,
          .cost = Cost::elementwise};
}

// Half where the operands tie, so that the two gradients sum to the cotangent.
Value share(Value mine, Value other, Value cotangent, std::string_view wins) {
  Value half = cotangent * 0.5;
  Value kept = select(compare(mine, other, wins), cotangent, zeros_like(cotangent));
  return select(compare(mine, other, "EQ"), half, kept);
}

Values none(size_t n) { return Values(n); }

std::vector<Type> pred_like(const Node& n) { return {{DType::pred, n.operands[0].dims()}}; }

DType target(const Node& n) { return static_cast<DType>(n.attributes.get<int64_t>("dtype")); }

}  // namespace

// Each row: name, then d/dx in terms of the node (n), its result and the cotangent (c[0]).
constexpr OpDef kAbs = unary<Kind::number>(
    "abs", ir::rule([](Node& n, Cotangents c) -> Values { return {c[0] * sign(n.operands[0])}; }));
constexpr OpDef kCeil = unary("ceil", NoGradient);
constexpr OpDef kCosine = unary("cosine", ir::rule([](Node& n, Cotangents c) -> Values {
                                  return {negate(c[0] * sine(n.operands[0]))};
                                }));
constexpr OpDef kErf =
    unary("erf", ir::rule([](Node& n, Cotangents c) -> Values {
            Value x = n.operands[0];
            return {c[0] * exponential(negate(x * x)) * (2 * std::numbers::inv_sqrtpi)};
          }),
          "chlo");
constexpr OpDef kErfInv =
    unary("erf_inv", ir::rule([](Node& n, Cotangents c) -> Values {
            Value y = n.result();
            return {c[0] * exponential(y * y) * (0.5 / std::numbers::inv_sqrtpi)};
          }),
          "chlo");
constexpr OpDef kExponential = unary(
    "exponential", ir::rule([](Node& n, Cotangents c) -> Values { return {c[0] * n.result()}; }));
constexpr OpDef kExponentialMinusOne = unary(
    "exponential_minus_one",
    ir::rule([](Node& n, Cotangents c) -> Values { return {c[0] * exponential(n.operands[0])}; }));
constexpr OpDef kFloor = unary("floor", NoGradient);
constexpr OpDef kIsFinite{.name = "is_finite",
                          .arity = 1,
                          .shape = [](const Node& n) -> std::vector<Type> {
                            same_types<Kind::floating>(n);
                            return pred_like(n);
                          },
                          .gradient = NoGradient,
                          .cost = Cost::elementwise};
constexpr OpDef kLog =
    unary("log", ir::rule([](Node& n, Cotangents c) -> Values { return {c[0] / n.operands[0]}; }));
constexpr OpDef kLogPlusOne =
    unary("log_plus_one",
          ir::rule([](Node& n, Cotangents c) -> Values { return {c[0] / (n.operands[0] + 1.0)}; }));
constexpr OpDef kLogistic = unary("logistic", ir::rule([](Node& n, Cotangents c) -> Values {
                                    Value y = n.result();
                                    return {c[0] * y * (1.0 - y)};
                                  }));
constexpr OpDef kNegate = unary<Kind::number>(
    "negate", ir::rule([](Node&, Cotangents c) -> Values { return {negate(c[0])}; }));
constexpr OpDef kNot = unary<Kind::bits>("not", NoGradient);
constexpr OpDef kRoundNearestEven = unary("round_nearest_even", NoGradient);
constexpr OpDef kRsqrt = unary("rsqrt", ir::rule([](Node& n, Cotangents c) -> Values {
                                 Value y = n.result();
                                 return {c[0] * (y * y * y) * -0.5};
                               }));
constexpr OpDef kSign = unary<Kind::number>("sign", NoGradient);
constexpr OpDef kSine =
    unary("sine",
          ir::rule([](Node& n, Cotangents c) -> Values { return {c[0] * cosine(n.operands[0])}; }));
constexpr OpDef kSqrt = unary(
    "sqrt", ir::rule([](Node& n, Cotangents c) -> Values { return {c[0] * 0.5 / n.result()}; }));
constexpr OpDef kTanh = unary("tanh", ir::rule([](Node& n, Cotangents c) -> Values {
                                Value y = n.result();
                                return {c[0] * (1.0 - y * y)};
                              }));

constexpr OpDef kAdd = binary("add", ir::rule([](Node&, Cotangents c) -> Values {
                                return {c[0], c[0]};
                              }));
constexpr OpDef kAnd = binary<Kind::bits>("and", NoGradient);
constexpr OpDef kAtan2 =
    binary<Kind::floating>("atan2", ir::rule([](Node& n, Cotangents c) -> Values {
                             Value y = n.operands[0], x = n.operands[1];
                             Value scaled = c[0] / (x * x + y * y);
                             return {scaled * x, negate(scaled * y)};
                           }));
constexpr OpDef kDivide = binary("divide", ir::rule([](Node& n, Cotangents c) -> Values {
                                   Value dx = c[0] / n.operands[1];
                                   return {dx, negate(dx * n.result())};
                                 }));
constexpr OpDef kMaximum = binary("maximum", ir::rule([](Node& n, Cotangents c) -> Values {
                                    Value x = n.operands[0], y = n.operands[1];
                                    return {share(x, y, c[0], "GT"), share(y, x, c[0], "GT")};
                                  }));
constexpr OpDef kMinimum = binary("minimum", ir::rule([](Node& n, Cotangents c) -> Values {
                                    Value x = n.operands[0], y = n.operands[1];
                                    return {share(x, y, c[0], "LT"), share(y, x, c[0], "LT")};
                                  }));
constexpr OpDef kMultiply = binary("multiply", ir::rule([](Node& n, Cotangents c) -> Values {
                                     return {c[0] * n.operands[1], c[0] * n.operands[0]};
                                   }));
constexpr OpDef kOr = binary<Kind::bits>("or", NoGradient);
constexpr OpDef kPower = binary<Kind::floating>(
    "power", ir::rule([](Node& n, Cotangents c) -> Values {
      Value x = n.operands[0], y = n.operands[1];
      // Where x is 0 its logarithm is replaced, so that 0^y does not turn the gradient into NaN.
      Value safe = select(compare(x, zeros_like(x), "GT"), x, full_like(x, 1.0));
      return {c[0] * y * power(x, y - 1.0), c[0] * n.result() * log(safe)};
    }));
constexpr OpDef kRemainder = binary("remainder", ir::rule([](Node& n, Cotangents c) -> Values {
                                      Value x = n.operands[0], y = n.operands[1];
                                      Value quotient = x / y;
                                      Value whole = sign(quotient) * floor(abs(quotient));
                                      return {c[0], negate(c[0] * whole)};
                                    }));
constexpr OpDef kShiftLeft = binary<Kind::integer>("shift_left", NoGradient);
constexpr OpDef kShiftRightArithmetic = binary<Kind::integer>("shift_right_arithmetic", NoGradient);
constexpr OpDef kShiftRightLogical = binary<Kind::integer>("shift_right_logical", NoGradient);
constexpr OpDef kSubtract = binary("subtract", ir::rule([](Node&, Cotangents c) -> Values {
                                     return {c[0], negate(c[0])};
                                   }));
constexpr OpDef kXor = binary<Kind::bits>("xor", NoGradient);

constexpr OpDef kCompare{
    .name = "compare",
    .arity = 2,
    .shape = [](const Node& n) -> std::vector<Type> {
      if (n.operands[0].type() != n.operands[1].type()) misuse(n, "equal types", operand_types(n));
      const std::string& d = n.attributes.get<std::string>("direction");
      if (d != "EQ" && d != "NE" && d != "GE" && d != "GT" && d != "LE" && d != "LT") {
        misuse(n, "a direction EQ, NE, GE, GT, LE or LT", "'" + d + "'");
      }
      return pred_like(n);
    },
    .gradient = NoGradient,
    .print = [](const Node& n) -> AttributeTexts {
      AttributeTexts out{
          {"comparison_direction",
           "#stablehlo<comparison_direction " + n.attributes.get<std::string>("direction") + ">"}};
      if (n.attributes.get<bool>("total")) {
        out.emplace_back("compare_type", "#stablehlo<comparison_type TOTALORDER>");
      }
      return out;
    },
    .cost = Cost::elementwise,
};

constexpr OpDef kSelect{
    .name = "select",
    .arity = 3,
    .shape = [](const Node& n) -> std::vector<Type> {
      const Type& p = n.operands[0].type();
      const Type& x = n.operands[1].type();
      bool fits = p.dtype == DType::pred && (p.rank() == 0 || p.dims == x.dims);
      if (!fits || x != n.operands[2].type()) {
        misuse(n, "a predicate (scalar or of the operands' dims) and two equal types",
               operand_types(n));
      }
      return {x};
    },
    .gradient = ir::rule([](Node& n, Cotangents c) -> Values {
      Value zero = zeros_like(c[0]);
      return {Value{}, select(n.operands[0], c[0], zero), select(n.operands[0], zero, c[0])};
    }),
    .cost = Cost::elementwise,
};

constexpr OpDef kClamp{
    .name = "clamp",
    .arity = 3,
    .shape = same_types<Kind::number>,
    .gradient = ir::rule([](Node& n, Cotangents c) -> Values {
      Value x = n.operands[1];
      Value inside = and_(compare(x, n.operands[0], "GE"), compare(x, n.operands[2], "LE"));
      return {Value{}, select(inside, c[0], zeros_like(c[0])), Value{}};
    }),
    .cost = Cost::elementwise,
};

constexpr OpDef kConvert{
    .name = "convert",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> {
      return {{target(n), n.operands[0].dims()}};
    },
    .gradient = ir::rule([](Node& n, Cotangents c) -> Values {
      DType from = n.operands[0].dtype();
      if (!is_float(from) || !is_float(target(n))) return none(1);
      return {convert(c[0], from)};
    }),
    .cost = Cost::free,
};

constexpr OpDef kBitcastConvert{
    .name = "bitcast_convert",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> {
      DType from = n.operands[0].dtype();
      if (size_of(from) != size_of(target(n)) || from == DType::pred || target(n) == DType::pred) {
        misuse(n, "two numeric types of one width",
               std::string(name_of(from)) + " to " + std::string(name_of(target(n))));
      }
      return {{target(n), n.operands[0].dims()}};
    },
    .gradient = NoGradient,
    .cost = Cost::elementwise,
};

constexpr OpDef kStopGradient{
    .name = "stop_gradient",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> { return {n.operands[0].type()}; },
    .gradient = NoGradient,
    .lower = [](Node&, std::span<const Value> x) -> Values { return {x[0]}; },
    .cost = Cost::free,
};

constexpr OpDef kTag{
    .name = "tag",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> { return {n.operands[0].type()}; },
    .gradient = ir::rule([](Node&, Cotangents c) -> Values { return {c[0]}; }),
    .lower = [](Node&, std::span<const Value> x) -> Values { return {x[0]}; },
    .cost = Cost::free,
};

Value abs(Value x) { return emit(kAbs, {x}); }
Value ceil(Value x) { return emit(kCeil, {x}); }
Value cosine(Value x) { return emit(kCosine, {x}); }
Value erf(Value x) { return emit(kErf, {x}); }
Value erf_inv(Value x) { return emit(kErfInv, {x}); }
Value exponential(Value x) { return emit(kExponential, {x}); }
Value exponential_minus_one(Value x) { return emit(kExponentialMinusOne, {x}); }
Value floor(Value x) { return emit(kFloor, {x}); }
Value is_finite(Value x) { return emit(kIsFinite, {x}); }
Value log(Value x) { return emit(kLog, {x}); }
Value log_plus_one(Value x) { return emit(kLogPlusOne, {x}); }
Value logistic(Value x) { return emit(kLogistic, {x}); }
Value negate(Value x) { return emit(kNegate, {x}); }
Value not_(Value x) { return emit(kNot, {x}); }
Value round_nearest_even(Value x) { return emit(kRoundNearestEven, {x}); }
Value rsqrt(Value x) { return emit(kRsqrt, {x}); }
Value sign(Value x) { return emit(kSign, {x}); }
Value sine(Value x) { return emit(kSine, {x}); }
Value sqrt(Value x) { return emit(kSqrt, {x}); }
Value tanh(Value x) { return emit(kTanh, {x}); }

Value add(Value x, Value y) { return emit(kAdd, {x, y}); }
Value and_(Value x, Value y) { return emit(kAnd, {x, y}); }
Value atan2(Value y, Value x) { return emit(kAtan2, {y, x}); }
Value divide(Value x, Value y) { return emit(kDivide, {x, y}); }
Value maximum(Value x, Value y) { return emit(kMaximum, {x, y}); }
Value minimum(Value x, Value y) { return emit(kMinimum, {x, y}); }
Value multiply(Value x, Value y) { return emit(kMultiply, {x, y}); }
Value or_(Value x, Value y) { return emit(kOr, {x, y}); }
Value power(Value x, Value y) { return emit(kPower, {x, y}); }
Value remainder(Value x, Value y) { return emit(kRemainder, {x, y}); }
Value shift_left(Value x, Value y) { return emit(kShiftLeft, {x, y}); }
Value shift_right_arithmetic(Value x, Value y) { return emit(kShiftRightArithmetic, {x, y}); }
Value shift_right_logical(Value x, Value y) { return emit(kShiftRightLogical, {x, y}); }
Value subtract(Value x, Value y) { return emit(kSubtract, {x, y}); }
Value xor_(Value x, Value y) { return emit(kXor, {x, y}); }

Value compare(Value x, Value y, std::string_view direction) {
  return emit(kCompare, {x, y}, {{"direction", std::string(direction)}, {"total", false}});
}
Value compare_total(Value x, Value y, std::string_view direction) {
  bool floats = x && is_float(x.dtype());
  return emit(kCompare, {x, y}, {{"direction", std::string(direction)}, {"total", floats}});
}
Value select(Value pred, Value x, Value y) { return emit(kSelect, {pred, x, y}); }
Value clamp(Value low, Value x, Value high) { return emit(kClamp, {low, x, high}); }

Value convert(Value x, DType dtype) {
  if (x && x.dtype() == dtype) return x;
  return emit(kConvert, {x}, {{"dtype", static_cast<int64_t>(dtype)}});
}
Value bitcast_convert(Value x, DType dtype) {
  if (x && x.dtype() == dtype) return x;
  return emit(kBitcastConvert, {x}, {{"dtype", static_cast<int64_t>(dtype)}});
}
Value stop_gradient(Value x) { return emit(kStopGradient, {x}); }
Value tag(Value x, std::string_view name) { return emit(kTag, {x}, {{"name", std::string(name)}}); }

}  // namespace strata::ops
