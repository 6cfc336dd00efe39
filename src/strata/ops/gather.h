// Indexed reads and writes: gather, scatter and what is built on them. Misuse throws
// invalid_argument with id ops.<name>. Formulas: the StableHLO specification, gather and scatter.
#pragma once

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kGather, kScatter;

// How indices point into an operand. An index is a vector of `start_index_map.size()` numbers along
// dim `index_vector` of the indices (or one number where index_vector = rank of the indices); the
// other dims of the indices, in order, are the "batch" of windows.
struct GatherDims {
  // Dims of the result (gather) or updates (scatter) that run along a window, rising; the others
  // are the batch.
  Dims offset = {};
  // Operand dims along which a window has size 1 and which are dropped from it, rising.
  Dims collapsed = {};
  // Component i of an index is the window's start along operand dim start_index_map[i]; windows
  // start at 0 along the dims not named.
  Dims start_index_map = {};
  int64_t index_vector = 0;
  // Dims that operand and indices share, pairwise of equal sizes (the operand's rising): each place
  // along them is a gather of its own, so that devices which share them out need nothing of each
  // other. Windows have size 1 along the operand's, which are dropped as the collapsed ones.
  Dims operand_batch = {};
  Dims indices_batch = {};
};

// One window of `slice_sizes` per index. A start that would reach over the edge is clamped so that
// the window fits. Indices are integers; the gradient adds into the operand at the clamped starts.
ir::Value gather(ir::Value operand, ir::Value indices, const GatherDims& dims,
                 const Dims& slice_sizes);

// The operand with the updates' windows added, or put in place of what was there. A window that
// does not fit is left out whole. Where windows of `scatter` overlap, one of them wins and the
// gradient is that of none in particular: give it distinct indices.
ir::Value scatter_add(ir::Value operand, ir::Value indices, ir::Value updates,
                      const GatherDims& dims);
ir::Value scatter(ir::Value operand, ir::Value indices, ir::Value updates, const GatherDims& dims);

// Whole slices along one axis: the result's dims are the operand's with `axis` replaced by the
// indices' dims. Embedding rows are take(table, ids, 0). Indices out of range are clamped.
ir::Value take(ir::Value operand, ir::Value indices, int64_t axis);

// Row by row: operand (S, P, …), indices (S, N) → (S, N, …) with result[s, n] =
// operand[s, indices[s, n]]. Indices out of range are clamped.
ir::Value take_rows(ir::Value operand, ir::Value indices);

// operand[…, indices[…, j, …], …] along `axis`. The indices have the operand's rank, and its sizes
// but for `axis`; the result has the indices' dims. Indices out of range are clamped.
ir::Value take_along_axis(ir::Value operand, ir::Value indices, int64_t axis);

// The reverse of take_along_axis: a tensor of `like`'s type, zero but for `updates` added at
// `indices` along `axis`.
ir::Value put_along_axis(ir::Value like, ir::Value indices, ir::Value updates, int64_t axis);

}  // namespace strata::ops
