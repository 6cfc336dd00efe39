// Rows of gather.h, sort.h and cumulative.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "strata/ops/cumulative.h"
#include "strata/ops/gather.h"
#include "strata/ops/op_rows.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/ops/sort.h"
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
using testing::RowInput;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int64_t clamped(double index, int64_t size) {
  return std::clamp<int64_t>(static_cast<int64_t>(index), 0, size - 1);
}

// Windows of 2 rows and 1 column of a 5x4 operand, at (column, row) pairs. Two pairs reach over
// the edge.
const RowInput kPairs{DType::i32, {2, 3}, 0, 0, {0, 3, 9, 1, -2, 4}};  // [component, window]
constexpr int64_t kWindows = 3;

GatherDims window_dims() {
  return {.offset = {0}, .collapsed = {1}, .start_index_map = {1, 0}, .index_vector = 0};
}

OpRow gather_row() {
  return {.op = &kGather,
          .what = "windows, some over the edge",
          .inputs = {{.dims = {5, 4}}, kPairs},
          .build = [](Function&, const Values& v) -> Values {
            return {gather(v[0], v[1], window_dims(), {2, 1})};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = array({2, kWindows});
            for (int64_t w = 0; w < kWindows; ++w) {
              int64_t column = clamped(v[1][w], 4), row = clamped(v[1][kWindows + w], 4);
              for (int64_t i = 0; i < 2; ++i) out[i * kWindows + w] = v[0][(row + i) * 4 + column];
            }
            return {out};
          }};
}

// Scatter leaves out a window that does not fit.
OpRow scatter_row(bool adds) {
  return {.op = &kScatter,
          .what = adds ? "add windows, some over the edge" : "set windows, some over the edge",
          .inputs = {{.dims = {5, 4}}, kPairs, {.dims = {2, kWindows}}},
          .build = [adds](Function&, const Values& v) -> Values {
            return {adds ? scatter_add(v[0], v[1], v[2], window_dims())
                         : scatter(v[0], v[1], v[2], window_dims())};
          },
          .reference = [adds](const Arrays& v) -> Arrays {
            Array out = v[0];
            for (int64_t w = 0; w < kWindows; ++w) {
              auto column = static_cast<int64_t>(v[1][w]);
              auto row = static_cast<int64_t>(v[1][kWindows + w]);
              if (column < 0 || column >= 4 || row < 0 || row + 2 > 5) continue;
              for (int64_t i = 0; i < 2; ++i) {
                double& cell = out[(row + i) * 4 + column];
                cell = v[2][i * kWindows + w] + (adds ? cell : 0);
              }
            }
            return {out};
          }};
}

OpRow repeated_row() {
  return {.op = &kScatter,
          .what = "add rows, one of them twice",
          .inputs = {{.dims = {4, 3}}, {DType::i64, {3}, 0, 0, {2, 0, 2}}, {.dims = {3, 3}}},
          .build = [](Function&, const Values& v) -> Values {
            return {scatter_add(
                v[0], v[1], v[2],
                {.offset = {1}, .collapsed = {0}, .start_index_map = {0}, .index_vector = 1})};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = v[0];
            for (int64_t i = 0; i < 9; ++i) {
              out[static_cast<int64_t>(v[1][i / 3]) * 3 + i % 3] += v[2][i];
            }
            return {out};
          }};
}

// Two gathers of their own, each from its half of the operand.
const RowInput kHalves{DType::i32, {2, 3}, 0, 0, {3, 0, 9, 1, -2, 1}};

OpRow take_rows_row() {
  return {.op = &kGather,
          .what = "row by row, some out of range",
          .inputs = {{.dims = {2, 4, 3}}, kHalves},
          .build = [](Function&, const Values& v) -> Values { return {take_rows(v[0], v[1])}; },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = array({2, 3, 3});
            for_each_index(out.dims, [&](const Dims& at) {
              int64_t index = clamped(v[1][at[0] * 3 + at[1]], 4);
              out[offset(out.dims, at)] = v[0][(at[0] * 4 + index) * 3 + at[2]];
            });
            return {out};
          }};
}

OpRow scatter_rows_row() {
  return {.op = &kScatter,
          .what = "row by row, some out of range",
          .inputs = {{.dims = {2, 4, 3}}, kHalves, {.dims = {2, 3, 3}}},
          .build = [](Function&, const Values& v) -> Values {
            return {scatter_add(v[0], v[1], v[2],
                                {.offset = {2},
                                 .collapsed = {1},
                                 .start_index_map = {1},
                                 .index_vector = 2,
                                 .operand_batch = {0},
                                 .indices_batch = {0}})};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = v[0];
            for_each_index(v[2].dims, [&](const Dims& at) {
              auto index = static_cast<int64_t>(v[1][at[0] * 3 + at[1]]);
              if (index < 0 || index >= 4) return;
              out[(at[0] * 4 + index) * 3 + at[2]] += v[2][offset(v[2].dims, at)];
            });
            return {out};
          }};
}

OpRow take_row(int64_t axis, const RowInput& indices) {
  return {
      .op = &kGather,
      .what = "take along axis " + std::to_string(axis),
      .inputs = {{.dims = {4, 3}}, indices},
      .build = [axis](Function&, const Values& v) -> Values { return {take(v[0], v[1], axis)}; },
      .reference = [axis](const Arrays& v) -> Arrays {
        Dims dims = v[1].dims;
        if (axis == 0) {
          dims.push_back(3);
        } else {
          dims.insert(dims.begin(), 4);
        }
        Array out = array(dims);
        int64_t n = v[1].size();
        for (int64_t i = 0; i < n; ++i) {
          if (axis == 0) {
            for (int64_t c = 0; c < 3; ++c) out[i * 3 + c] = v[0][clamped(v[1][i], 4) * 3 + c];
          } else {
            for (int64_t r = 0; r < 4; ++r) out[r * n + i] = v[0][r * 3 + clamped(v[1][i], 3)];
          }
        }
        return {out};
      }};
}

OpRow along_axis_row() {
  return {.op = &kGather,
          .what = "take_along_axis, and put back",
          .inputs = {{.dims = {2, 4, 3}},
                     {DType::i32, {2, 2, 3}, 0, 0, {0, 3, 1, 0, 2, 2, 1, 1, 3, 2, 0, 9}}},
          .build = [](Function&, const Values& v) -> Values {
            Value taken = take_along_axis(v[0], v[1], 1);
            return {taken, put_along_axis(v[0], v[1], taken, 1)};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array taken = array({2, 2, 3}), put = array({2, 4, 3});
            for_each_index(taken.dims, [&](const Dims& i) {
              double index = v[1][offset(taken.dims, i)];
              double x = v[0][offset(put.dims, {i[0], clamped(index, 4), i[2]})];
              taken[offset(taken.dims, i)] = x;
              // Reading clamps an index out of range, writing drops it.
              if (index < 4) put[offset(put.dims, {i[0], static_cast<int64_t>(index), i[2]})] += x;
            });
            return {taken, put};
          }};
}

// The rows of a matrix sorted stably by its first operand.
OpRow sort_row(std::string what, RowInput key, bool descending,
               const std::function<bool(double, double)>& before) {
  Dims dims = key.dims;
  return {.op = &kSort,
          .what = std::move(what),
          .inputs = {std::move(key), {.dims = dims}},
          .build = [descending](Function&, const Values& v) -> Values {
            Values out = sort(v, -1, descending);
            out.push_back(argsort(v[0], 1, descending));
            return out;
          },
          .reference = [before](const Arrays& v) -> Arrays {
            Arrays out{array(v[0].dims), array(v[0].dims), array(v[0].dims)};
            int64_t width = v[0].dims[1];
            for (int64_t r = 0; r < v[0].dims[0]; ++r) {
              std::vector<int64_t> order(static_cast<size_t>(width));
              std::iota(order.begin(), order.end(), r * width);
              std::stable_sort(order.begin(), order.end(),
                               [&](int64_t a, int64_t b) { return before(v[0][a], v[0][b]); });
              for (int64_t c = 0; c < width; ++c) {
                int64_t from = order[static_cast<size_t>(c)];
                out[0][r * width + c] = v[0][from];
                out[1][r * width + c] = v[1][from];
                out[2][r * width + c] = static_cast<double>(from - r * width);
              }
            }
            return out;
          }};
}

OpRow sort_first_axis_row() {
  return {.op = &kSort,
          .what = "one operand along the first axis",
          .inputs = {{DType::f64, {7, 2}}},
          .build = [](Function&, const Values& v) -> Values { return sort({v[0]}, 0); },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = v[0];
            for (int64_t c = 0; c < 2; ++c) {
              std::vector<double> column;
              for (int64_t r = 0; r < 7; ++r) column.push_back(v[0][r * 2 + c]);
              std::sort(column.begin(), column.end());
              for (int64_t r = 0; r < 7; ++r) out[r * 2 + c] = column[static_cast<size_t>(r)];
            }
            return {out};
          }};
}

Rows sort_rows() {
  auto rising = [](double a, double b) { return a < b; };
  auto falling = [](double a, double b) { return a > b; };
  // NaN after +inf in the total order.
  auto total = [](double a, double b) {
    return std::isnan(b) ? !std::isnan(a) : !std::isnan(a) && a < b;
  };
  RowInput equal{DType::i32, {2, 5}, 0, 0, {3, 1, 3, 1, 3, 0, 0, -1, 2, 0}};
  RowInput special{DType::f32, {1, 6}, 0, 0, {kNan, 2, -kInf, kInf, -1, 0.5}};
  Rows rows{sort_row("f32", {DType::f32, {3, 9}}, false, rising),
            sort_row("f32 descending", {DType::f32, {3, 9}}, true, falling),
            sort_row("equal keys keep their order", equal, false, rising),
            sort_row("equal keys, descending", equal, true, falling),
            sort_row("infinities and NaN", special, false, total),
            sort_first_axis_row()};
  rows[4].gradient = false;
  return rows;
}

OpRow top_k_row(std::string what, RowInput x, int64_t k) {
  return {.op = &kTopK,
          .what = std::move(what),
          .inputs = {std::move(x)},
          .build = [k](Function&, const Values& v) -> Values {
            TopK top = top_k(v[0], k);
            return {top.values, top.indices};
          },
          .reference = [k](const Arrays& v) -> Arrays {
            int64_t width = v[0].dims.back(), rows = v[0].size() / width;
            Dims dims = v[0].dims;
            dims.back() = k;
            Arrays out{array(dims), array(dims)};
            for (int64_t r = 0; r < rows; ++r) {
              std::vector<int64_t> order(static_cast<size_t>(width));
              std::iota(order.begin(), order.end(), 0);
              std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
                return v[0][r * width + a] > v[0][r * width + b];
              });
              for (int64_t i = 0; i < k; ++i) {
                int64_t from = order[static_cast<size_t>(i)];
                out[0][r * k + i] = v[0][r * width + from];
                out[1][r * k + i] = static_cast<double>(from);
              }
            }
            return out;
          }};
}

using Scan = Value (*)(Value, int64_t, Running);
using Fold = double (*)(double, double);

// `op` is what the scan is made of.
OpRow running_row(std::string what, const ir::OpDef* op, Scan scan, Fold fold, double start,
                  Running how, DType dtype = DType::f32) {
  return {.op = op,
          .what = std::move(what),
          .inputs = {{dtype, {2, 7, 2}}},
          .build = [=](Function&, const Values& v) -> Values { return {scan(v[0], 1, how)}; },
          .reference = [=](const Arrays& v) -> Arrays {
            Array out = array(v[0].dims);
            for_each_index({2, 2}, [&](const Dims& i) {
              double running = start;
              for (int64_t t = 0; t < 7; ++t) {
                int64_t at = how.reverse ? 6 - t : t;
                int64_t cell = offset(v[0].dims, {i[0], at, i[1]});
                double next = fold(running, v[0][cell]);
                out[cell] = how.exclusive ? running : next;
                running = next;
              }
            });
            return {out};
          },
          .tolerance_scale = 4};
}

Rows running_rows() {
  Fold plus = [](double a, double b) { return a + b; };
  Fold times = [](double a, double b) { return a * b; };
  Fold larger = [](double a, double b) { return std::max(a, b); };
  Rows rows{
      running_row("cumulative_sum", &kPad, cumulative_sum, plus, 0, {}),
      running_row("cumulative_sum, reverse", &kPad, cumulative_sum, plus, 0, {.reverse = true}),
      running_row("cumulative_sum, exclusive", &kPad, cumulative_sum, plus, 0, {false, true}),
      running_row("cumulative_sum, i32", &kPad, cumulative_sum, plus, 0, {true, true}, DType::i32),
      running_row("cumulative_product", &kPad, cumulative_product, times, 1, {}),
      running_row("cumulative_product, reverse and exclusive", &kPad, cumulative_product, times, 1,
                  {true, true}),
      running_row("cumulative_max", &kPad, cumulative_max, larger, -kInf, {}),
      running_row("cumulative_max, reverse and exclusive", &kPad, cumulative_max, larger, -kInf,
                  {true, true}),
      running_row("cumulative_max, i32", &kPad, cumulative_max, larger, -2147483648.0,
                  {false, true}, DType::i32),
  };
  // -inf times a cotangent is no number to compare.
  rows[7].gradient = false;
  return rows;
}

}  // namespace

Rows index_rows() {
  Rows rows{gather_row(),
            scatter_row(true),
            scatter_row(false),
            repeated_row(),
            take_rows_row(),
            scatter_rows_row(),
            take_row(0, {DType::i32, {2, 2}, 0, 0, {3, 0, 7, -1}}),
            take_row(1, {DType::u8, {3}, 0, 0, {2, 2, 0}}),
            take_row(0, {DType::i32, {}, 0, 0, {2}}),
            along_axis_row(),
            top_k_row("equal elements", {DType::f32, {2, 4}, 0, 0, {1, 5, 5, 1, 0, 0, 0, 0}}, 3),
            top_k_row("random", {.dims = {3, 2, 8}}, 4),
            top_k_row("i32", {DType::i32, {9}, -9, 9}, 9)};
  rows[10].gradient = false;  // ties
  for (OpRow& r : sort_rows()) rows.push_back(std::move(r));
  for (OpRow& r : running_rows()) rows.push_back(std::move(r));
  return rows;
}

}  // namespace strata::ops
