// Ops that move data without computing: broadcast, reshape, transpose, slice, pad, concatenate,
// reverse, dynamic slice and update. Axes may be negative in the builders. Misuse throws
// invalid_argument with id ops.<name>.
#pragma once

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kBroadcastInDim, kConcatenate, kDynamicSlice, kDynamicUpdateSlice, kPad,
    kReshape, kReverse, kSlice, kTranspose;

// Operand dim i becomes dim axes[i] of the result; every other dim is new. Operand dims are equal
// to the result's there (size 1 does not stretch: see broadcast_to).
ir::Value broadcast_in_dim(ir::Value x, const Dims& dims, const Dims& axes);
// The same elements in row-major order under other dims; one size may be -1.
ir::Value reshape(ir::Value x, Dims dims);
// Result dim i is operand dim permutation[i]. The identity returns x itself.
ir::Value transpose(ir::Value x, Dims permutation);
// Elements start, start + stride, … below limit, per dim.
ir::Value slice(ir::Value x, const Dims& start, const Dims& limit, Dims strides = {});
// The range [begin, end) of one axis.
ir::Value slice_axis(ir::Value x, int64_t axis, int64_t begin, int64_t end);
// One index of an axis, which is dropped.
ir::Value select_index(ir::Value x, int64_t axis, int64_t index);
// `value` (rank 0) around and, with interior, between the elements; low and high may be negative.
ir::Value pad(ir::Value x, ir::Value value, const Dims& low, const Dims& high, Dims interior = {});
ir::Value concatenate(const ir::Values& xs, int64_t axis);
ir::Value reverse(ir::Value x, Dims axes);
// The block of `sizes` at `start` (one rank-0 integer per dim), which is clamped to fit.
ir::Value dynamic_slice(ir::Value x, const ir::Values& start, const Dims& sizes);
// x with the block at `start` (clamped to fit) replaced by `update`.
ir::Value dynamic_update_slice(ir::Value x, ir::Value update, const ir::Values& start);
// One index of an axis, given as a rank-0 integer; the axis is dropped.
ir::Value dynamic_index(ir::Value x, ir::Value index, int64_t axis);
// x with the slab at `index` of `axis` replaced by `update` (x's dims without the axis).
ir::Value dynamic_update_index(ir::Value x, ir::Value update, ir::Value index, int64_t axis);

}  // namespace strata::ops
