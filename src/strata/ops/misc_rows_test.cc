// Rows of misc.h, random.h and constant.h.
#include <limits>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/op_rows.h"
#include "strata/ops/parts.h"
#include "strata/ops/random.h"
#include "strata/testing/op_harness.h"

namespace strata::ops {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;
using testing::Array;
using testing::Arrays;
using testing::OpRow;

OpRow barrier_row() {
  return {.op = &kOptimizationBarrier,
          .what = "",
          .inputs = {{.dims = {3}}, {DType::i32, {2}, 0, 9}, {.dims = {2}}},
          .build = [](Function&, const Values& v) -> Values { return optimization_barrier(v); },
          .reference = [](const Arrays& v) -> Arrays { return v; }};
}

OpRow sharding_row() {
  return {.op = &kShardingConstraint,
          .what = "",
          .inputs = {{.dims = {4, 2}}},
          .build = [](Function&, const Values& v) -> Values {
            Value x = sharding_constraint(v[0], "#sdy.sharding<@mesh, [{\"data\"}, {}]>");
            return {x * x};
          },
          .reference = [](const Arrays& v) -> Arrays {
            return {testing::map(v[0], [](double x) { return x * x; })};
          },
          .module_header = "  sdy.mesh @mesh = <[\"data\"=1]>"};
}

OpRow parts_row() {
  return {.op = &kOnParts,
          .what = "",
          .inputs = {{.dims = {4, 2}}, {.dims = {2}}},
          .build = [](Function& f, const Values& v) -> Values {
            f.set_mesh(sharding::Mesh::parse("data=1"));
            return on_parts(f, {v[0], v[1]}, {{{"data"}, {}}, {{}}}, {{{"data"}, {}}}, {"data"},
                            [](const Values& part) -> Values { return {part[0] * part[1] + 1.0}; });
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = v[0];
            for (int64_t i = 0; i < out.size(); ++i) out[i] = out[i] * v[1][i % 2] + 1;
            return {out};
          },
          .module_header = "  sdy.mesh @mesh = <[\"data\"=1]>"};
}

OpRow placement_row() {
  return {.op = &kPlacement,
          .what = "to host memory and back",
          .inputs = {{.dims = {4, 2}}},
          .build = [](Function&, const Values& v) -> Values {
            return {placed(placed(v[0] * v[0], "pinned_host"), "device") + v[0]};
          },
          .reference = [](const Arrays& v) -> Arrays {
            return {testing::map(v[0], [](double x) { return x * x + x; })};
          },
          .newer_only = true};
}

// "TopK" is a target that the CPU plug-ins bring along.
OpRow custom_call_row() {
  return {.op = &kCustomCall,
          .what = "a target of the plug-in",
          .inputs = {{DType::f32, {5}, 0, 0, {3, 9, 1, 7, 5}}},
          .build = [](Function&, const Values& v) -> Values {
            return custom_call({v[0]}, {.target = "TopK",
                                        .results = {{DType::f32, {2}}, {DType::i32, {2}}},
                                        .api_version = 1});
          },
          .reference = [](const Arrays&) -> Arrays {
            return {{{2}, {9, 7}}, {{2}, {1, 3}}};
          }};
}

// The known answers of Threefry-2x32 with 20 rounds (Random123's kat_vectors).
OpRow threefry_row() {
  return {.op = &kThreefry2x32,
          .what = "known answers",
          .inputs = {{DType::u32, {2}, 0, 0, {0x13198a2e, 0x03707344}},
                     {DType::u32, {1}, 0, 0, {0x243f6a88}},
                     {DType::u32, {1}, 0, 0, {0x85a308d3}}},
          .build = [](Function& f, const Values& v) -> Values {
            ir::Node& node = f.add(kThreefry2x32, v);
            return {node.result(0), node.result(1)};
          },
          .reference = [](const Arrays&) -> Arrays {
            return {{{1}, {0xc4923a9c}}, {{1}, {0x483df7a0}}};
          }};
}

OpRow constant_row(DType dtype, std::vector<double> values) {
  Dims dims{static_cast<int64_t>(values.size())};
  return {.op = &kConstant,
          .what = std::string(name_of(dtype)) + " x " + std::to_string(values.size()),
          .inputs = {},
          .build = [=](Function& f, const Values&) -> Values {
            HostTensor t(dtype, dims);
            for (int64_t i = 0; i < t.size(); ++i) t.set(i, values[static_cast<size_t>(i)]);
            return {constant(f, std::make_shared<const HostTensor>(std::move(t)))};
          },
          .reference = [=](const Arrays&) -> Arrays {
            return {{dims, values}};
          }};
}

OpRow limits_row() {
  return {.op = &kConstant,
          .what = "lowest and highest",
          .inputs = {},
          .build = [](Function& f, const Values&) -> Values {
            Values out;
            for (DType d : {DType::pred, DType::i8, DType::u16, DType::i32, DType::i64, DType::u64,
                            DType::bf16, DType::f64}) {
              out.push_back(lowest(f, d));
              out.push_back(highest(f, d));
            }
            // One more wraps around exactly at the end of the type.
            out.push_back(compare(highest(f, DType::i64) + 1.0, lowest(f, DType::i64), "EQ"));
            return out;
          },
          .reference = [](const Arrays&) -> Arrays {
            constexpr double kInf = std::numeric_limits<double>::infinity();
            Arrays out;
            for (double v : {0.0, 1.0, -128.0, 127.0, 0.0, 65535.0, -2147483648.0, 2147483647.0,
                             -0x1p63, 0x1p63, 0.0, 0x1p64, -kInf, kInf, -kInf, kInf, 1.0}) {
              out.push_back({{}, {v}});
            }
            return out;
          }};
}

OpRow iota_row(DType dtype) {
  return {.op = &kIota,
          .what = std::string(name_of(dtype)),
          .inputs = {},
          .build = [dtype](Function& f, const Values&) -> Values {
            return {iota(f, dtype, {2, 3}, 1)};
          },
          .reference = [](const Arrays&) -> Arrays {
            return {{{2, 3}, {0, 1, 2, 0, 1, 2}}};
          }};
}

}  // namespace

Rows misc_rows() {
  Rows rows{barrier_row(),   sharding_row(), parts_row(), custom_call_row(),
            placement_row(), threefry_row(), limits_row()};
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (DType d : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    rows.push_back(constant_row(d, {1.5, -0.25, kNan}));
    rows.push_back(constant_row(d, {-3}));
  }
  for (DType d : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    rows.push_back(constant_row(d, {-128, 0, 127}));
    rows.push_back(constant_row(d, {-7}));
  }
  for (DType d : {DType::u8, DType::u16, DType::u32, DType::u64}) {
    rows.push_back(constant_row(d, {0, 255}));
    rows.push_back(constant_row(d, {200}));
  }
  rows.push_back(constant_row(DType::pred, {1, 0, 1}));
  rows.push_back(constant_row(DType::pred, {1}));
  rows.push_back(constant_row(DType::f32, {}));
  for (DType d : {DType::f32, DType::bf16, DType::i32, DType::u8}) rows.push_back(iota_row(d));
  return rows;
}

}  // namespace strata::ops
