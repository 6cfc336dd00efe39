// Products of rows that are sorted by group, each group with its own matrix: the experts of a
// mixture. The work is that of the rows alone, however many groups there are.
#pragma once

#include <cstdint>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kGroupedDot, kGroupedOuter;

struct GroupedDot {
  bool in_out = false;  // the weights are (groups, in, out) instead of (groups, out, in)
  int64_t block = 64;   // rows of one step of the loop
};

// x is [M, in] and its rows are sorted by group: the first group_sizes[0] rows belong to group 0,
// the next group_sizes[1] to group 1 and so on; group_sizes is i32 [groups]. Row m of the result
// [M, out] is row m of x times its group's matrix; rows beyond the sum of the sizes are zero.
// Negative sizes count as 0 and sizes beyond M are cut off. x and weights have one floating type.
// Runs as a loop over blocks of rows whose number is known on the device only. The gradient is
// written by hand (two more such loops). Throws invalid_argument "ops.grouped_dot".
ir::Value grouped_dot(ir::Value x, ir::Value weights, ir::Value group_sizes, GroupedDot how = {});

// Per group the sum over its rows of a[m]ᵀ·b[m]: [groups, P, Q] from [M, P] and [M, Q]. It is the
// weights' gradient of grouped_dot; sums are kept in f32 for narrower types. Throws
// invalid_argument "ops.grouped_outer".
ir::Value grouped_outer(ir::Value a, ir::Value b, ir::Value group_sizes, int64_t block = 64);

}  // namespace strata::ops
