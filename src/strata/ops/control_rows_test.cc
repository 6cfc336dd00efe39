// Rows of control.h. Remat policies, captures and memory have tests in room transform.
#include <cmath>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/elementwise.h"
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
using testing::OpRow;

// carry = carry·w + x_t, y_t = carry·t; x is stacked on axis 1, y on axis `y_axis`.
OpRow scan_row(bool reverse, int64_t y_axis, Remat::Policy policy) {
  Remat remat{policy, {}};
  return {.op = &kScan,
          .what = std::string(reverse ? "reverse" : "forward") + ", outputs on axis " +
                  std::to_string(y_axis) + ", remat " + text_of(remat),
          .inputs = {{.dims = {2}}, {.dims = {2, 5}}, {.dims = {2}, .low = 0.3, .high = 0.9}},
          .build = [=](Function& f, const Values& v) -> Values {
            ScanOptions options{
                .length = 5, .reverse = reverse, .x_axes = {1}, .y_axes = {y_axis}, .remat = remat};
            Step out = scan(f, {v[0]}, {v[1]}, options,
                            [&](Value index, const Values& carry, const Values& xs) -> Step {
                              Value next = carry[0] * v[2] + xs[0];
                              Value t = broadcast_to(convert(index, next.dtype()), next.dims());
                              return {{next}, {next * t}};
                            });
            return {out.carry[0], out.ys[0]};
          },
          .reference = [=](const Arrays& v) -> Arrays {
            Array carry = v[0], y = array(y_axis == 0 ? Dims{5, 2} : Dims{2, 5});
            for (int64_t step = 0; step < 5; ++step) {
              int64_t t = reverse ? 4 - step : step;
              for (int64_t i = 0; i < 2; ++i) {
                carry[i] = carry[i] * v[2][i] + v[1][i * 5 + t];
                y[y_axis == 0 ? t * 2 + i : i * 5 + t] = carry[i] * static_cast<double>(t);
              }
            }
            return {carry, y};
          },
          .tolerance_scale = 8};
}

OpRow empty_scan_row() {
  return {.op = &kScan,
          .what = "no steps",
          .inputs = {{.dims = {2}}, {.dims = {0, 2}}},
          .build = [](Function& f, const Values& v) -> Values {
            Step out = scan(f, {v[0]}, {v[1]}, {.length = 0},
                            [](Value, const Values& carry, const Values& xs) -> Step {
                              return {{carry[0] + xs[0]}, {xs[0]}};
                            });
            return {out.carry[0], out.ys[0]};
          },
          .reference = [](const Arrays& v) -> Arrays {
            return {v[0], v[1]};
          }};
}

OpRow call_row(Remat::Policy policy) {
  Remat remat{policy, {}};
  return {.op = &kCall,
          .what = "remat " + text_of(remat),
          .inputs = {{.dims = {4}}, {.dims = {4}}},
          .build = [remat](Function& f, const Values& v) -> Values {
            return call(f, {v[0]}, remat,
                        [&](const Values& x) -> Values { return {sine(x[0] * v[1]) * x[0]}; });
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = v[0];
            for (int64_t i = 0; i < 4; ++i) out[i] = std::sin(v[0][i] * v[1][i]) * v[0][i];
            return {out};
          },
          .tolerance_scale = 2};
}

OpRow if_row(double taken) {
  return {.op = &kIf,
          .what = taken != 0 ? "then" : "otherwise",
          .inputs = {{DType::pred, {}, 0, 0, {taken}}, {.dims = {3}}, {.dims = {3}}},
          .build = [](Function&, const Values& v) -> Values {
            return if_(
                v[0], [&]() -> Values { return {v[1] * v[2]}; },
                [&]() -> Values { return {sine(v[1]) + v[1]}; });
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = v[1];
            for (int64_t i = 0; i < 3; ++i) {
              double x = v[1][i];
              out[i] = v[0][0] != 0 ? x * v[2][i] : std::sin(x) + x;
            }
            return {out};
          }};
}

OpRow while_row() {
  return {.op = &kWhile,
          .what = "Newton's square root, the number of steps not known",
          .inputs = {{.dims = {}, .low = 2, .high = 9}},
          .build = [](Function& f, const Values& v) -> Values {
            return while_loop(
                f, {v[0]},
                [&](const Values& x) {
                  Value error = abs(x[0] * x[0] - v[0]);
                  return compare(error, full_like(error, 1e-5), "GT");
                },
                [&](const Values& x) -> Values { return {(x[0] + v[0] / x[0]) * 0.5}; });
          },
          .reference = [](const Arrays& v) -> Arrays {
            return {{{}, {std::sqrt(v[0][0])}}};
          },
          .tolerance_scale = 4};
}

}  // namespace

Rows control_rows() {
  using Policy = Remat::Policy;
  return {scan_row(false, 0, Policy::none),
          scan_row(true, 1, Policy::none),
          scan_row(false, 1, Policy::full),
          scan_row(true, 0, Policy::dots),
          empty_scan_row(),
          call_row(Policy::none),
          call_row(Policy::full),
          if_row(1),
          if_row(0),
          while_row()};
}

}  // namespace strata::ops
