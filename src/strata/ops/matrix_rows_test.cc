// Rows of dot.h, grouped_dot.h and linalg.h.
#include <cmath>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/grouped_dot.h"
#include "strata/ops/linalg.h"
#include "strata/ops/op_rows.h"
#include "strata/testing/op_harness.h"

namespace strata::ops {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;
using testing::Array;
using testing::array;
using testing::Arrays;
using testing::offset;
using testing::OpRow;
using testing::RowInput;

OpRow linear_row(DType dtype) {
  return {.op = &kDotGeneral,
          .what = "linear " + std::string(name_of(dtype)),
          .inputs = {{dtype, {2, 3, 5}}, {dtype, {4, 5}}},
          .build = [](Function&, const Values& v) -> Values { return {linear(v[0], v[1])}; },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = array({2, 3, 4});
            for (int64_t r = 0; r < 6; ++r) {
              for (int64_t o = 0; o < 4; ++o) {
                for (int64_t i = 0; i < 5; ++i) out[r * 4 + o] += v[0][r * 5 + i] * v[1][o * 5 + i];
              }
            }
            return {out};
          },
          .tolerance_scale = 8};
}

// Two contracted dims in another order on each side, and a batch dim in the middle.
OpRow mixed_dot_row() {
  return {
      .op = &kDotGeneral,
      .what = "batch and two contracted dims, crossed",
      .inputs = {{.dims = {3, 2, 4, 5}}, {.dims = {4, 3, 6, 2}}},
      .build = [](Function&, const Values& v) -> Values {
        return {dot_general(
            v[0], v[1],
            {.lhs_batch = {1}, .rhs_batch = {3}, .lhs_contract = {2, 0}, .rhs_contract = {0, 1}})};
      },
      .reference = [](const Arrays& v) -> Arrays {
        Array out = array({2, 5, 6});
        testing::for_each_index({2, 5, 6, 3, 4}, [&](const Dims& i) {
          int64_t b = i[0], m = i[1], n = i[2], p = i[3], q = i[4];
          out[offset(out.dims, {b, m, n})] +=
              v[0][offset(v[0].dims, {p, b, q, m})] * v[1][offset(v[1].dims, {q, p, n, b})];
        });
        return {out};
      },
      .tolerance_scale = 16};
}

// Three adjacent contracted dims between and after others, and a batch dim behind them.
OpRow merged_dot_row() {
  return {.op = &kDotGeneral,
          .what = "adjacent contracted dims",
          .inputs = {{.dims = {5, 3, 2, 2, 4}}, {.dims = {4, 6, 3, 2, 2}}},
          .build = [](Function&, const Values& v) -> Values {
            return {dot_general(v[0], v[1],
                                {.lhs_batch = {4},
                                 .rhs_batch = {0},
                                 .lhs_contract = {1, 2, 3},
                                 .rhs_contract = {2, 3, 4}})};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = array({4, 5, 6});
            testing::for_each_index({4, 5, 6, 3, 2, 2}, [&](const Dims& i) {
              int64_t b = i[0], m = i[1], n = i[2], p = i[3], q = i[4], r = i[5];
              out[offset(out.dims, {b, m, n})] += v[0][offset(v[0].dims, {m, p, q, r, b})] *
                                                  v[1][offset(v[1].dims, {b, n, p, q, r})];
            });
            return {out};
          },
          .tolerance_scale = 16};
}

OpRow widening_dot_row() {
  return {.op = &kDotGeneral,
          .what = "bf16 into f32",
          .inputs = {{DType::bf16, {3, 64}}, {DType::bf16, {64, 2}}},
          .build = [](Function&, const Values& v) -> Values {
            DType wide = v[0].dtype() == DType::bf16 ? DType::f32 : v[0].dtype();
            return {dot_general(v[0], v[1], {.lhs_contract = {1}, .rhs_contract = {0}}, wide)};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = array({3, 2});
            for (int64_t r = 0; r < 3; ++r) {
              for (int64_t c = 0; c < 2; ++c) {
                for (int64_t i = 0; i < 64; ++i)
                  out[r * 2 + c] += v[0][r * 64 + i] * v[1][i * 2 + c];
              }
            }
            return {out};
          },
          .tolerance_scale = 16};
}

// The group of each row; -1 beyond the last one.
std::vector<int64_t> groups_of(const Array& sizes, int64_t rows) {
  std::vector<int64_t> out;
  for (int64_t g = 0; g < sizes.size(); ++g) {
    for (double i = 0; i < sizes[g] && static_cast<int64_t>(out.size()) < rows; ++i) {
      out.push_back(g);
    }
  }
  out.resize(static_cast<size_t>(rows), -1);
  return out;
}

OpRow grouped_row(std::string what, DType dtype, int64_t rows, std::vector<double> sizes,
                  GroupedDot how) {
  auto groups = static_cast<int64_t>(sizes.size());
  return {.op = &kGroupedDot,
          .what = std::move(what),
          .inputs = {{dtype, {rows, 3}},
                     {dtype, how.in_out ? Dims{groups, 3, 2} : Dims{groups, 2, 3}},
                     {DType::i32, {groups}, 0, 0, std::move(sizes)}},
          .build = [how](Function&, const Values& v) -> Values {
            return {grouped_dot(v[0], v[1], v[2], how)};
          },
          .reference = [how](const Arrays& v) -> Arrays {
            int64_t m = v[0].dims[0];
            Array out = array({m, 2});
            std::vector<int64_t> group = groups_of(v[2], m);
            for (int64_t r = 0; r < m; ++r) {
              int64_t g = group[static_cast<size_t>(r)];
              for (int64_t i = 0; g >= 0 && i < 6; ++i) {
                int64_t o = i / 3, k = i % 3;
                out[r * 2 + o] += v[0][r * 3 + k] * v[1][g * 6 + (how.in_out ? k * 2 + o : i)];
              }
            }
            return {out};
          },
          .tolerance_scale = 4};
}

OpRow grouped_outer_row(DType dtype, std::vector<double> sizes) {
  auto groups = static_cast<int64_t>(sizes.size());
  return {.op = &kGroupedOuter,
          .what = std::string(name_of(dtype)),
          .inputs = {{dtype, {11, 3}},
                     {dtype, {11, 2}},
                     {DType::i32, {groups}, 0, 0, std::move(sizes)}},
          .build = [](Function&, const Values& v) -> Values {
            return {grouped_outer(v[0], v[1], v[2], 4)};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = array({v[2].size(), 3, 2});
            std::vector<int64_t> group = groups_of(v[2], 11);
            for (int64_t r = 0; r < 11; ++r) {
              int64_t g = group[static_cast<size_t>(r)];
              for (int64_t i = 0; g >= 0 && i < 6; ++i) {
                out[g * 6 + i] += v[0][r * 3 + i / 2] * v[1][r * 2 + i % 2];
              }
            }
            return {out};
          },
          .tolerance_scale = 4};
}

Rows grouped_rows() {
  GroupedDot blocks{.in_out = false, .block = 4}, flipped{.in_out = true, .block = 4};
  return {
      grouped_row("empty, small and large groups", DType::f32, 19, {0, 7, 1, 0, 9, 2}, blocks),
      grouped_row("weights (in, out)", DType::f32, 19, {5, 0, 14}, flipped),
      grouped_row("rows of no group", DType::f32, 12, {3, 2}, blocks),
      grouped_row("one group, fewer rows than a block", DType::f64, 3, {3}, {}),
      grouped_row("sizes beyond the rows and below 0", DType::f32, 6,
                  {-3, 4, 2000000000, 2000000000}, blocks),
      grouped_row("no rows", DType::f32, 0, {0, 0}, blocks),
      grouped_row("bf16", DType::bf16, 19, {8, 11}, blocks),
      grouped_outer_row(DType::f32, {4, 0, 6}),
      grouped_outer_row(DType::bf16, {0, 11}),
  };
}

// The element of op(a) that the solve reads: zero outside the triangle, one on a unit diagonal.
double read(const Array& a, int64_t batch, int64_t r, int64_t c, TriangularSolve how) {
  if (how.transpose) std::swap(r, c);
  if (r == c && how.unit_diagonal) return 1;
  bool inside = how.lower ? r >= c : r <= c;
  return inside ? a[(batch * 3 + r) * 3 + c] : 0;
}

// op(a)·x, or x·op(a).
Array product(const Array& a, const Array& x, TriangularSolve how) {
  Array out = array(x.dims);
  int64_t rows = x.dims[1], columns = x.dims[2];
  testing::for_each_index({x.dims[0], rows, columns, 3}, [&](const Dims& i) {
    int64_t b = i[0], r = i[1], c = i[2], k = i[3];
    double term = how.left ? read(a, b, r, k, how) * x[(b * rows + k) * columns + c]
                           : x[(b * rows + r) * columns + k] * read(a, b, k, c, how);
    out[(b * rows + r) * columns + c] += term;
  });
  return out;
}

// A diagonal well away from zero; the other triangle holds numbers that must not be read.
std::vector<double> triangle_values() {
  std::vector<double> a;
  for (int64_t i = 0; i < 18; ++i) {
    bool diagonal = i % 9 % 4 == 0;
    a.push_back(diagonal ? 1.5 + 0.1 * static_cast<double>(i)
                         : 0.3 * std::sin(static_cast<double>(i)));
  }
  return a;
}

OpRow solve_row(TriangularSolve how) {
  Dims b = how.left ? Dims{2, 3, 2} : Dims{2, 2, 3};
  std::string what = std::string(how.left ? "left" : "right") + (how.lower ? " lower" : " upper") +
                     (how.unit_diagonal ? " unit" : "") + (how.transpose ? " transposed" : "");
  return {.op = &kTriangularSolve,
          .what = what,
          .inputs = {{DType::f32, {2, 3, 3}, 0, 0, triangle_values()}, {.dims = b}},
          .build = [how](Function&, const Values& v) -> Values {
            return {triangular_solve(v[0], v[1], how)};
          },
          .reference = [how](const Arrays& v) -> Arrays {
            // Fixed point of the splitting op(a) = D + N: exact after 3 rounds, since N is
            // nilpotent.
            Array x = array(v[1].dims);
            int64_t rows = x.dims[1], columns = x.dims[2];
            for (int round = 0; round < 3; ++round) {
              Array ax = product(v[0], x, how);
              for (int64_t i = 0; i < x.size(); ++i) {
                int64_t batch = i / (rows * columns);
                int64_t d = how.left ? i / columns % rows : i % columns;
                x[i] += (v[1][i] - ax[i]) / read(v[0], batch, d, d, how);
              }
            }
            return {x};
          },
          .tolerance_scale = 8};
}

Rows solve_rows() {
  Rows rows;
  for (int bits = 0; bits < 16; ++bits) {
    rows.push_back(solve_row({(bits & 1) == 0, (bits & 2) == 0, (bits & 4) != 0, (bits & 8) != 0}));
  }
  return rows;
}

}  // namespace

Rows matrix_rows() {
  Rows rows{linear_row(DType::f32), linear_row(DType::f64), linear_row(DType::bf16),
            mixed_dot_row(),        merged_dot_row(),       widening_dot_row()};
  for (OpRow& r : grouped_rows()) rows.push_back(std::move(r));
  for (OpRow& r : solve_rows()) rows.push_back(std::move(r));
  return rows;
}

}  // namespace strata::ops
