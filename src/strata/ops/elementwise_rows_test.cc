// Rows of elementwise.h.
#include <cmath>
#include <limits>

#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/op_rows.h"
#include "strata/testing/op_harness.h"

namespace strata::ops {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;
using testing::Array;
using testing::Arrays;
using testing::OpRow;
using testing::RowInput;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kFloats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

struct Unary {
  const ir::OpDef* op;
  Value (*build)(Value);
  double (*reference)(double);
  double low, high;
};

// Bisection on std::erf: slow, and independent of any formula for the inverse.
double inverse_erf(double y) {
  double low = -6, high = 6;
  for (int i = 0; i < 200; ++i) {
    double middle = (low + high) / 2;
    (std::erf(middle) < y ? low : high) = middle;
  }
  return (low + high) / 2;
}

double sign_of(double x) { return x > 0 ? 1 : (x < 0 ? -1 : 0); }

const Unary kUnary[] = {
    {&kAbs, abs, [](double x) { return std::abs(x); }, -3, 3},
    {&kCeil, ceil, [](double x) { return std::ceil(x); }, -3, 3},
    {&kCosine, cosine, [](double x) { return std::cos(x); }, -6, 6},
    {&kErf, erf, [](double x) { return std::erf(x); }, -3, 3},
    {&kErfInv, erf_inv, inverse_erf, -0.95, 0.95},
    {&kExponential, exponential, [](double x) { return std::exp(x); }, -4, 4},
    {&kExponentialMinusOne, exponential_minus_one, [](double x) { return std::expm1(x); }, -2, 2},
    {&kFloor, floor, [](double x) { return std::floor(x); }, -3, 3},
    {&kLog, log, [](double x) { return std::log(x); }, 0.1, 9},
    {&kLogPlusOne, log_plus_one, [](double x) { return std::log1p(x); }, -0.6, 3},
    {&kLogistic, logistic, [](double x) { return 1 / (1 + std::exp(-x)); }, -6, 6},
    {&kNegate, negate, [](double x) { return -x; }, -3, 3},
    {&kRoundNearestEven, round_nearest_even, [](double x) { return std::nearbyint(x); }, -4, 4},
    {&kRsqrt, rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.1, 9},
    {&kSign, sign, sign_of, -3, 3},
    {&kSine, sine, [](double x) { return std::sin(x); }, -6, 6},
    {&kSqrt, sqrt, [](double x) { return std::sqrt(x); }, 0.1, 9},
    {&kTanh, tanh, [](double x) { return std::tanh(x); }, -3, 3},
};

// One program on several inputs, each by itself: one compilation for all element types.
OpRow unary_row(const ir::OpDef* op, std::string what, std::vector<RowInput> inputs,
                Value (*build)(Value), const std::function<double(double)>& reference) {
  return {.op = op,
          .what = std::move(what),
          .inputs = std::move(inputs),
          .build = [build](Function&, const Values& v) -> Values {
            Values out;
            for (const Value& x : v) out.push_back(build(x));
            return out;
          },
          .reference = [reference](const Arrays& v) -> Arrays {
            Arrays out;
            for (const Array& x : v) out.push_back(testing::map(x, reference));
            return out;
          }};
}

void add_unary(Rows& rows) {
  for (const Unary& u : kUnary) {
    std::vector<RowInput> inputs;
    for (DType d : kFloats) inputs.push_back({d, {3, 5}, u.low, u.high});
    rows.push_back(unary_row(u.op, "floats", std::move(inputs), u.build, u.reference));
  }
  // Halves show the rounding rule, integers and special values the rest.
  RowInput halves{DType::f32, {6}, 0, 0, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}};
  rows.push_back(unary_row(&kRoundNearestEven, "halves", {halves}, round_nearest_even,
                           [](double x) { return std::nearbyint(x); }));
  RowInput special{DType::f32, {5}, 0, 0, {kNan, kInf, -kInf, 0, 3e38}};
  rows.push_back(unary_row(&kIsFinite, "special values", {special}, is_finite,
                           [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }));
  rows.push_back(unary_row(&kAbs, "i32", {{DType::i32, {8}, -9, 9}}, abs,
                           [](double x) { return std::abs(x); }));
  rows.push_back(
      unary_row(&kNegate, "i64", {{DType::i64, {8}, -9, 9}}, negate, [](double x) { return -x; }));
  rows.push_back(unary_row(&kSign, "i32", {{DType::i32, {8}, -2, 2}}, sign, sign_of));
  rows.push_back(
      unary_row(&kNot, "i32", {{DType::i32, {8}, -9, 9}}, not_, [](double x) { return -x - 1; }));
  rows.push_back(unary_row(&kNot, "pred", {{DType::pred, {2}, 0, 0, {0, 1}}}, not_,
                           [](double x) { return 1 - x; }));
}

struct Binary {
  const ir::OpDef* op;
  Value (*build)(Value, Value);
  double (*reference)(double, double);
  double low, high;    // of the first operand
  double low2, high2;  // of the second
};

const Binary kMaxima{&kMaximum, maximum, [](double x, double y) { return x > y ? x : y; }, -3, 3,
                     -3,        3};
const Binary kRemainders{
    &kRemainder, remainder, [](double x, double y) { return std::fmod(x, y); }, -9, 9, 1, 5};

const Binary kBinary[] = {
    kMaxima,
    {&kAdd, add, [](double x, double y) { return x + y; }, -3, 3, -3, 3},
    {&kAtan2, atan2, [](double y, double x) { return std::atan2(y, x); }, 0.2, 3, -3, 3},
    {&kDivide, divide, [](double x, double y) { return x / y; }, -3, 3, 0.5, 3},
    {&kMinimum, minimum, [](double x, double y) { return x < y ? x : y; }, -3, 3, -3, 3},
    {&kMultiply, multiply, [](double x, double y) { return x * y; }, -3, 3, -3, 3},
    {&kPower, power, [](double x, double y) { return std::pow(x, y); }, 0.3, 3, -2, 2},
    {&kSubtract, subtract, [](double x, double y) { return x - y; }, -3, 3, -3, 3},
};

int64_t whole(double x) { return static_cast<int64_t>(x); }

const Binary kIntegers[] = {
    kRemainders,
    {&kAdd, add, [](double x, double y) { return x + y; }, -9, 9, -9, 9},
    {&kAnd, and_, [](double x, double y) -> double { return whole(x) & whole(y); }, -9, 9, -9, 9},
    {&kDivide, divide, [](double x, double y) { return std::trunc(x / y); }, -9, 9, 1, 5},
    {&kMaximum, maximum, [](double x, double y) { return x > y ? x : y; }, -9, 9, -9, 9},
    {&kOr, or_, [](double x, double y) -> double { return whole(x) | whole(y); }, -9, 9, -9, 9},
    {&kShiftLeft, shift_left, [](double x, double y) { return x * std::exp2(y); }, -9, 9, 0, 9},
    {&kShiftRightArithmetic, shift_right_arithmetic,
     [](double x, double y) -> double { return whole(x) >> whole(y); }, -900, 900, 0, 9},
    {&kShiftRightLogical, shift_right_logical,
     [](double x, double y) -> double { return static_cast<uint32_t>(whole(x)) >> whole(y); }, -900,
     900, 1, 9},
    {&kXor, xor_, [](double x, double y) -> double { return whole(x) ^ whole(y); }, -9, 9, -9, 9},
};

// Likewise: inputs are pairs.
OpRow binary_row(const Binary& b, std::string what, std::vector<RowInput> inputs) {
  auto reference = b.reference;
  auto build = b.build;
  return {.op = b.op,
          .what = std::move(what),
          .inputs = std::move(inputs),
          .build = [build](Function&, const Values& v) -> Values {
            Values out;
            for (size_t i = 0; i < v.size(); i += 2) out.push_back(build(v[i], v[i + 1]));
            return out;
          },
          .reference = [reference](const Arrays& v) -> Arrays {
            Arrays out;
            for (size_t p = 0; p < v.size(); p += 2) {
              out.push_back(v[p]);
              for (int64_t i = 0; i < v[p].size(); ++i) {
                out.back()[i] = reference(v[p][i], v[p + 1][i]);
              }
            }
            return out;
          }};
}

void add_binary(Rows& rows) {
  for (const Binary& b : kBinary) {
    std::vector<RowInput> inputs;
    for (DType d : kFloats) {
      inputs.push_back({d, {3, 5}, b.low, b.high});
      inputs.push_back({d, {3, 5}, b.low2, b.high2});
    }
    rows.push_back(binary_row(b, "floats", std::move(inputs)));
  }
  for (const Binary& b : kIntegers) {
    rows.push_back(binary_row(
        b, "i32", {{DType::i32, {17}, b.low, b.high}, {DType::i32, {17}, b.low2, b.high2}}));
  }
  // The sign follows the dividend; far from multiples of the divisor, where it jumps.
  rows.push_back(binary_row(
      kRemainders, "signs of floats",
      {{DType::f32, {4}, 0, 0, {5.3, -5.3, 5.3, -5.3}}, {DType::f32, {4}, 0, 0, {2, 2, -2, -2}}}));
  rows.push_back(binary_row(
      kMaxima, "infinities",
      {{DType::f32, {3}, 0, 0, {-kInf, kInf, 1}}, {DType::f32, {3}, 0, 0, {2, 2, -kInf}}}));
  rows.back().gradient = false;
}

double holds(std::string_view direction, double x, double y) {
  if (direction == "EQ") return x == y;
  if (direction == "NE") return x != y;
  if (direction == "GE") return x >= y;
  if (direction == "GT") return x > y;
  return direction == "LE" ? x <= y : x < y;
}

void add_compare(Rows& rows) {
  for (const char* direction : {"EQ", "NE", "GE", "GT", "LE", "LT"}) {
    rows.push_back({.op = &kCompare,
                    .what = direction,
                    .inputs = {{DType::f32, {6}, 0, 0, {1, 2, 3, kNan, kInf, 0}},
                               {DType::f32, {6}, 0, 0, {1, 3, 2, kNan, kInf, kNan}}},
                    .build = [direction](Function&, const Values& v) -> Values {
                      return {compare(v[0], v[1], direction)};
                    },
                    .reference = [direction](const Arrays& v) -> Arrays {
                      Array out = v[0];
                      for (int64_t i = 0; i < out.size(); ++i) {
                        out[i] = holds(direction, v[0][i], v[1][i]);
                      }
                      return {out};
                    }});
  }
  rows.push_back({.op = &kCompare,
                  .what = "total order",
                  .inputs = {{DType::f32, {4}, 0, 0, {-0.0, kInf, kNan, -kInf}},
                             {DType::f32, {4}, 0, 0, {0.0, kNan, kNan, -3}}},
                  .build = [](Function&, const Values& v) -> Values {
                    return {compare_total(v[0], v[1], "LT")};
                  },
                  .reference = [](const Arrays&) -> Arrays {
                    return {{{4}, {1, 1, 0, 1}}};
                  }});
}

Arrays select_reference(const Arrays& v) {
  Array out = v[1];
  for (int64_t i = 0; i < out.size(); ++i) {
    if (v[0][v[0].size() == 1 ? 0 : i] == 0) out[i] = v[2][i];
  }
  return {out};
}

void add_ternary(Rows& rows) {
  auto build = [](Function&, const Values& v) -> Values { return {select(v[0], v[1], v[2])}; };
  rows.push_back(
      {.op = &kSelect,
       .what = "elementwise",
       .inputs = {{DType::pred, {5}, 0, 0, {1, 0, 0, 1, 1}}, {.dims = {5}}, {.dims = {5}}},
       .build = build,
       .reference = select_reference});
  rows.push_back({.op = &kSelect,
                  .what = "one predicate",
                  .inputs = {{DType::pred, {}, 0, 0, {0}}, {.dims = {5}}, {.dims = {5}}},
                  .build = build,
                  .reference = select_reference});
  rows.push_back({.op = &kClamp,
                  .what = "",
                  .inputs = {{.dims = {40}}},
                  .build = [](Function&, const Values& v) -> Values {
                    return {clamp(full_like(v[0], -0.5), v[0], full_like(v[0], 0.5))};
                  },
                  .reference = [](const Arrays& v) -> Arrays {
                    return {testing::map(
                        v[0], [](double x) { return x < -0.5 ? -0.5 : (x > 0.5 ? 0.5 : x); })};
                  }});
}

OpRow convert_row(DType from, DType to, std::vector<double> values,
                  const std::function<double(double)>& reference) {
  Dims dims{static_cast<int64_t>(values.size())};
  return {.op = &kConvert,
          .what = std::string(name_of(from)) + " to " + std::string(name_of(to)),
          .inputs = {{from, dims, 0, 0, std::move(values)}},
          .build = [to](Function&, const Values& v) -> Values { return {convert(v[0], to)}; },
          .reference = [reference](const Arrays& v) -> Arrays {
            return {testing::map(v[0], reference)};
          },
          // Rounding is a staircase, which differences do not see the slope of; its gradient has
          // a test of its own.
          .gradient = false};
}

void add_converts(Rows& rows) {
  auto same = [](double x) { return x; };
  rows.push_back(convert_row(DType::f32, DType::i32, {-2.7, -0.5, 0.5, 2.7},
                             [](double x) { return std::trunc(x); }));
  rows.push_back(convert_row(DType::i32, DType::f32, {-7, 0, 9}, same));
  rows.push_back(convert_row(DType::pred, DType::f32, {0, 1}, same));
  rows.push_back(convert_row(DType::f32, DType::pred, {0, 2, -1},
                             [](double x) { return x == 0 ? 0.0 : 1.0; }));
  rows.push_back(convert_row(DType::f32, DType::bf16, {1.00390625, 1.01171875, 3}, [](double x) {
    return x == 1.00390625 ? 1.0 : x == 3 ? 3 : 1.015625;
  }));
  rows.push_back(convert_row(DType::bf16, DType::f64, {1.5, -256, 0.0078125}, same));
  rows.push_back(convert_row(DType::u8, DType::i64, {0, 255}, same));
  rows.push_back({.op = &kBitcastConvert,
                  .what = "f32 to u32",
                  .inputs = {{DType::f32, {3}, 0, 0, {0, 1, -2}}},
                  .build = [](Function&, const Values& v) -> Values {
                    return {bitcast_convert(v[0], DType::u32)};
                  },
                  .reference = [](const Arrays&) -> Arrays {
                    return {{{3}, {0, 0x3F800000, 0xC0000000}}};
                  },
                  .gradient = false});
}

void add_identities(Rows& rows) {
  auto same = [](const Arrays& v) -> Arrays { return v; };
  rows.push_back(
      {.op = &kStopGradient,
       .what = "",
       .inputs = {{.dims = {4}}},
       .build = [](Function&, const Values& v) -> Values { return {stop_gradient(v[0])}; },
       .reference = same});
  rows.push_back({.op = &kTag,
                  .what = "",
                  .inputs = {{.dims = {4}}},
                  .build = [](Function&, const Values& v) -> Values { return {tag(v[0], "x")}; },
                  .reference = same});
}

}  // namespace

Rows elementwise_rows() {
  Rows rows;
  add_unary(rows);
  add_binary(rows);
  add_compare(rows);
  add_ternary(rows);
  add_converts(rows);
  add_identities(rows);
  return rows;
}

}  // namespace strata::ops
