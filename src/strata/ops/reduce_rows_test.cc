// Rows of reduce.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "strata/ops/op_rows.h"
#include "strata/ops/reduce.h"
#include "strata/testing/op_harness.h"

namespace strata::ops {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;
using testing::Array;
using testing::array;
using testing::Arrays;
using testing::for_each_index;
using testing::offset;
using testing::OpRow;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Fold = double (*)(double, double);

// Folds x over the axes marked in `reduced`, keeping them as size 1 if `keep`.
Array fold(const Array& x, const std::vector<bool>& reduced, bool keep, double start, Fold f) {
  Dims dims;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) dims.push_back(x.dims[i]);
    if (reduced[i] && keep) dims.push_back(1);
  }
  Array out = array(dims);
  std::fill(out.data.begin(), out.data.end(), start);
  for_each_index(x.dims, [&](const Dims& index) {
    Dims to;
    for (size_t i = 0; i < reduced.size(); ++i) {
      if (!reduced[i]) to.push_back(index[i]);
      if (reduced[i] && keep) to.push_back(0);
    }
    double& cell = out[offset(dims, to)];
    cell = f(cell, x[offset(x.dims, index)]);
  });
  return out;
}

struct Kind {
  const char* name;
  Value (*build)(Value, Dims, bool);
  double start;
  Fold fold;
};

const Kind kKinds[] = {
    {"sum", reduce_sum, 0, [](double a, double b) { return a + b; }},
    {"max", reduce_max, -kInf, [](double a, double b) { return std::max(a, b); }},
    {"min", reduce_min, kInf, [](double a, double b) { return std::min(a, b); }},
    {"product", reduce_product, 1, [](double a, double b) { return a * b; }},
};

OpRow reduce_row(const Kind& kind, DType dtype, const Dims& axes, bool keep) {
  std::vector<bool> reduced(3, false);
  for (int64_t a : axes) reduced[static_cast<size_t>(a < 0 ? a + 3 : a)] = true;
  return {
      .op = &kReduce,
      .what =
          std::string(kind.name) + " " + std::string(name_of(dtype)) + (keep ? ", dims kept" : ""),
      .inputs = {{dtype, {2, 3, 4}, -3, 3}},
      .build = [=](Function&, const Values& v) -> Values { return {kind.build(v[0], axes, keep)}; },
      .reference = [=](const Arrays& v) -> Arrays {
        return {fold(v[0], reduced, keep, kind.start, kind.fold)};
      },
      .tolerance_scale = 4,
      .gradient = is_float(dtype)};
}

OpRow predicate_row(const char* what, Value (*build)(Value, Dims, bool), double start, Fold f) {
  return {.op = &kReduce,
          .what = what,
          .inputs = {{DType::pred, {3, 2}, 0, 0, {1, 1, 0, 1, 0, 0}}},
          .build = [=](Function&, const Values& v) -> Values { return {build(v[0], {1}, false)}; },
          .reference = [=](const Arrays& v) -> Arrays {
            return {fold(v[0], {false, true}, false, start, f)};
          },
          .gradient = false};
}

// Applies f to each row of the last axis.
testing::Reference by_row(const std::function<std::vector<double>(std::vector<double>)>& f) {
  return [f](const Arrays& v) -> Arrays {
    int64_t width = v[0].dims.back();
    Array out;
    out.dims = v[0].dims;
    for (int64_t at = 0; at < v[0].size(); at += width) {
      auto first = v[0].data.begin() + at;
      for (double y : f({first, first + width})) out.data.push_back(y);
    }
    out.dims.back() = out.size() / (v[0].size() / width);
    return {out};
  };
}

std::vector<double> softmax_of(std::vector<double> x) {
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v);
  for (double& v : x) v = sum == 0 ? 0 : v / sum;
  return x;
}

std::vector<double> log_sum_exp_of(std::vector<double> x) {
  double sum = 0;
  for (double v : x) sum += std::exp(v);
  return {std::log(sum)};
}

std::vector<double> log_softmax_of(std::vector<double> x) {
  double lse = log_sum_exp_of(x)[0];
  for (double& v : x) v -= lse;
  return x;
}

std::vector<double> mean_of(std::vector<double> x) {
  double sum = 0;
  for (double v : x) sum += v;
  return {sum / static_cast<double>(x.size())};
}

OpRow composed(std::string what, testing::RowInput input, const std::function<Value(Value)>& build,
               testing::Reference reference) {
  return {.op = &kReduce,
          .what = std::move(what),
          .inputs = {std::move(input)},
          .build = [build](Function&, const Values& v) -> Values { return {build(v[0])}; },
          .reference = std::move(reference),
          .tolerance_scale = 4};
}

Rows composed_rows() {
  testing::RowInput x{.dims = {3, 5}};
  testing::RowInput masked{DType::f32, {2, 2}, 0, 0, {-kInf, -kInf, -kInf, 0}};
  Rows rows{
      composed(
          "mean", x, [](Value v) { return reduce_mean(v, {1}, true); }, by_row(mean_of)),
      composed(
          "softmax", x, [](Value v) { return softmax(v, -1); }, by_row(softmax_of)),
      composed(
          "log_softmax", x, [](Value v) { return log_softmax(v, 1); }, by_row(log_softmax_of)),
      composed(
          "log_sum_exp", x, [](Value v) { return log_sum_exp(v, 1); }, by_row(log_sum_exp_of)),
      composed(
          "softmax of -inf", masked, [](Value v) { return softmax(v, 1); }, by_row(softmax_of)),
      composed(
          "log_sum_exp of -inf", masked, [](Value v) { return log_sum_exp(v, 1); },
          by_row(log_sum_exp_of)),
  };
  rows[4].gradient = rows[5].gradient = false;
  rows.push_back(composed(
      "argmax: ties and NaN",
      {DType::f32, {4, 3}, 0, 0, {1, 7, 7, 9, kNan, 2, -kInf, -kInf, -kInf, 9, 2, kNan}},
      [](Value v) { return argmax(v, 1); },
      [](const Arrays&) -> Arrays {
        return {{{4}, {1, 1, 0, 2}}};
      }));
  rows.back().gradient = false;
  return rows;
}

}  // namespace

Rows reduce_rows() {
  Rows rows;
  for (const Kind& kind : kKinds) {
    rows.push_back(reduce_row(kind, DType::f32, {0, 2}, false));
    rows.push_back(reduce_row(kind, DType::f64, {-1}, true));
    rows.push_back(reduce_row(kind, DType::bf16, {1}, false));
    rows.push_back(reduce_row(kind, DType::i32, {0, 1, 2}, false));
    rows.push_back(reduce_row(kind, DType::i64, {2}, false));
  }
  rows.push_back(predicate_row("and", reduce_and, 1, [](double a, double b) { return a * b; }));
  rows.push_back(
      predicate_row("or", reduce_or, 0, [](double a, double b) { return std::max(a, b); }));
  for (testing::OpRow& r : composed_rows()) rows.push_back(std::move(r));
  return rows;
}

}  // namespace strata::ops
