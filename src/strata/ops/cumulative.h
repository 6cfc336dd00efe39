// Running sums, maxima and products along one axis (may be negative). Built from log2(n) steps of
// "combine with the same thing shifted by 1, 2, 4 …", so they work for every number type and their
// gradients come by composition. Throws invalid_argument "ops.axis" on a wrong axis.
#pragma once

#include <cstdint>

#include "strata/ir/ir.h"

namespace strata::ops {

struct Running {
  bool reverse = false;    // from the last element to the first
  bool exclusive = false;  // element i combines those before it, not itself
};

// Of an exclusive scan the first element is 0, 1, or the type's least value (-inf for floats).
ir::Value cumulative_sum(ir::Value x, int64_t axis, Running how = {});
ir::Value cumulative_product(ir::Value x, int64_t axis, Running how = {});
ir::Value cumulative_max(ir::Value x, int64_t axis, Running how = {});

}  // namespace strata::ops
