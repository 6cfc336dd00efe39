// Sorting and the largest elements. Misuse throws invalid_argument with id ops.<name>.
#pragma once

#include <cstdint>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kSort, kTopK;

// The operands, all of the same dims, reordered together along `axis` by the first one. Stable.
// Floats are ordered totally: -NaN, -inf, …, -0, +0, …, +inf, NaN. The gradient puts each
// cotangent back where its element came from.
ir::Values sort(const ir::Values& operands, int64_t axis, bool descending = false);

// The permutation (i32) that sorts x along `axis`; equal elements keep their order.
ir::Value argsort(ir::Value x, int64_t axis, bool descending = false);

struct TopK {
  ir::Value values;   // (…, k), falling
  ir::Value indices;  // (…, k) i32
};
// The k largest elements along the last axis; of equal ones the lower index comes first. Requires
// 0 <= k <= size and rank >= 1. The gradient goes to the chosen elements.
TopK top_k(ir::Value x, int64_t k);

}  // namespace strata::ops
