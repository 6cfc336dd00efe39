// Rows of shape.h.
#include "strata/ops/constant.h"
#include "strata/ops/op_rows.h"
#include "strata/ops/shape.h"
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

// A result of `dims` whose element at `index` is x's at source(index).
testing::Reference moves(const Dims& dims, const std::function<Dims(Dims)>& source) {
  return [dims, source](const Arrays& x) -> Arrays {
    Array out = array(dims);
    for_each_index(dims, [&](const Dims& index) {
      out[offset(dims, index)] = x[0][offset(x[0].dims, source(index))];
    });
    return {out};
  };
}

using One = std::function<Value(Value)>;

OpRow row(const ir::OpDef* op, std::string what, const Dims& in, const One& build,
          testing::Reference reference) {
  return {.op = op,
          .what = std::move(what),
          .inputs = {{.dims = in}},
          .build = [build](Function&, const Values& v) -> Values { return {build(v[0])}; },
          .reference = std::move(reference)};
}

Rows moving_rows() {
  return {
      row(
          &kBroadcastInDim, "new dims on both sides", {3},
          [](Value x) {
            return broadcast_in_dim(x, {2, 3, 4}, {1});
          },
          moves({2, 3, 4}, [](Dims i) { return Dims{i[1]}; })),
      row(
          &kBroadcastInDim, "a scalar", {},
          [](Value x) {
            return broadcast_in_dim(x, {2, 2}, {});
          },
          moves({2, 2}, [](const Dims&) { return Dims{}; })),
      row(
          &kReshape, "with an open size", {2, 6},
          [](Value x) {
            return reshape(x, {3, -1});
          },
          moves({3, 4},
                [](Dims i) {
                  return Dims{(i[0] * 4 + i[1]) / 6, (i[0] * 4 + i[1]) % 6};
                })),
      row(
          &kTranspose, "a cycle", {2, 3, 4},
          [](Value x) {
            return transpose(x, {2, 0, 1});
          },
          moves({4, 2, 3},
                [](Dims i) {
                  return Dims{i[1], i[2], i[0]};
                })),
      row(
          &kSlice, "with strides", {7, 5},
          [](Value x) {
            return slice(x, {1, 0}, {6, 5}, {2, 3});
          },
          moves({3, 2},
                [](Dims i) {
                  return Dims{1 + 2 * i[0], 3 * i[1]};
                })),
      row(
          &kSlice, "nothing", {4}, [](Value x) { return slice(x, {2}, {2}); },
          moves({0}, [](Dims i) { return i; })),
      row(
          &kReverse, "one of two axes", {3, 4}, [](Value x) { return reverse(x, {-1}); },
          moves({3, 4},
                [](Dims i) {
                  return Dims{i[0], 3 - i[1]};
                })),
  };
}

// One dim of the operand for a dim of the padded result; -1 where the padding is.
int64_t unpadded(int64_t at, int64_t low, int64_t interior, int64_t size) {
  int64_t from = at - low;
  if (from < 0 || from % (interior + 1) != 0) return -1;
  int64_t source = from / (interior + 1);
  return source < size ? source : -1;
}

OpRow pad_row(std::string what, const Dims& in, const Dims& low, const Dims& high,
              const Dims& interior, const Dims& out_dims) {
  return {.op = &kPad,
          .what = std::move(what),
          .inputs = {{.dims = in}, {.dims = {}}},
          .build = [=](Function&, const Values& v) -> Values {
            return {pad(v[0], v[1], low, high, interior)};
          },
          .reference = [=](const Arrays& v) -> Arrays {
            Array out = array(out_dims);
            for_each_index(out_dims, [&](const Dims& index) {
              Dims source;
              bool inside = true;
              for (size_t d = 0; d < in.size(); ++d) {
                source.push_back(unpadded(index[d], low[d], interior[d], in[d]));
                inside = inside && source[d] >= 0;
              }
              out[offset(out_dims, index)] = inside ? v[0][offset(in, source)] : v[1][0];
            });
            return {out};
          }};
}

OpRow concatenate_row() {
  return {.op = &kConcatenate,
          .what = "three operands",
          .inputs = {{.dims = {2, 3}}, {.dims = {2, 1}}, {.dims = {2, 2}}},
          .build = [](Function&, const Values& v) -> Values { return {concatenate(v, 1)}; },
          .reference = [](const Arrays& v) -> Arrays {
            Array out = array({2, 6});
            for (int64_t r = 0; r < 2; ++r) {
              int64_t at = 0;
              for (const Array& x : v) {
                for (int64_t c = 0; c < x.dims[1]; ++c) out[r * 6 + at++] = x[r * x.dims[1] + c];
              }
            }
            return {out};
          }};
}

// Starts beyond the edge are moved so that the block fits.
int64_t fitted(double start, int64_t size, int64_t block) {
  return std::max<int64_t>(0, std::min(static_cast<int64_t>(start), size - block));
}

OpRow dynamic_slice_row(std::string what, std::vector<double> start) {
  return {.op = &kDynamicSlice,
          .what = std::move(what),
          .inputs = {{.dims = {4, 5}},
                     {DType::i32, {}, 0, 0, {start[0]}},
                     {DType::i32, {}, 0, 0, {start[1]}}},
          .build = [](Function&, const Values& v) -> Values {
            return {dynamic_slice(v[0], {v[1], v[2]}, {2, 3})};
          },
          .reference = [](const Arrays& v) -> Arrays {
            int64_t r = fitted(v[1][0], 4, 2), c = fitted(v[2][0], 5, 3);
            return moves({2, 3}, [=](Dims i) { return Dims{r + i[0], c + i[1]}; })(v);
          }};
}

OpRow dynamic_update_row(std::string what, std::vector<double> start) {
  return {.op = &kDynamicUpdateSlice,
          .what = std::move(what),
          .inputs = {{.dims = {4, 5}},
                     {.dims = {2, 3}},
                     {DType::i32, {}, 0, 0, {start[0]}},
                     {DType::i32, {}, 0, 0, {start[1]}}},
          .build = [](Function&, const Values& v) -> Values {
            return {dynamic_update_slice(v[0], v[1], {v[2], v[3]})};
          },
          .reference = [](const Arrays& v) -> Arrays {
            int64_t r = fitted(v[2][0], 4, 2), c = fitted(v[3][0], 5, 3);
            Array out = v[0];
            for_each_index({2, 3}, [&](const Dims& i) {
              out[(r + i[0]) * 5 + c + i[1]] = v[1][offset({2, 3}, i)];
            });
            return {out};
          }};
}

OpRow dynamic_index_row() {
  return {.op = &kDynamicSlice,
          .what = "one index of an axis, put back into another",
          .inputs = {{.dims = {2, 3, 2}}, {DType::i32, {}, 0, 0, {1}}},
          .build = [](Function& f, const Values& v) -> Values {
            Value slab = dynamic_index(v[0], v[1], 1);
            Value zero = scalar(f, DType::i32, 0);
            return {slab, dynamic_update_index(v[0], slab, zero, -2)};
          },
          .reference = [](const Arrays& v) -> Arrays {
            Array slab = array({2, 2}), out = v[0];
            for_each_index({2, 2}, [&](const Dims& i) {
              slab[offset({2, 2}, i)] = v[0][offset({2, 3, 2}, {i[0], 1, i[1]})];
              out[offset({2, 3, 2}, {i[0], 0, i[1]})] = slab[offset({2, 2}, i)];
            });
            return {slab, out};
          }};
}

}  // namespace

Rows shape_rows() {
  Rows rows = moving_rows();
  rows.push_back(pad_row("around and between", {2, 3}, {1, 0}, {2, 1}, {2, 0}, {7, 4}));
  rows.push_back(pad_row("negative", {5, 3}, {-1, 2}, {-2, -1}, {0, 1}, {2, 6}));
  rows.push_back(concatenate_row());
  rows.push_back(dynamic_slice_row("inside", {1, 2}));
  rows.push_back(dynamic_slice_row("over the edge", {9, -4}));
  rows.push_back(dynamic_update_row("inside", {2, 1}));
  rows.push_back(dynamic_update_row("over the edge", {3, 4}));
  rows.push_back(dynamic_index_row());
  return rows;
}

}  // namespace strata::ops
