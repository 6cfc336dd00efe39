// The global gradient norm and what clipping by it multiplies with. Traced; pure.
#pragma once

#include "strata/ir/ir.h"

namespace strata::optim {

// Sum of the squares of every element of every leaf, as a rank-0 f32: 0 for no leaves. Leaves of
// any float type are converted first, so 1,000 bf16 ones give 1,000. A leaf stands for the whole
// (sharded or replicated) array, so each distinct element counts once on every mesh. Squares of
// magnitudes beyond 1.8e19 overflow to infinity.
ir::Value sum_of_squares(ir::Function& function, const ir::Values& leaves);

// Whether every element of every leaf is finite (a rank-0 predicate), read once per leaf as a sum
// in float32; so sums beyond 3.4e38 count as not finite. True for no leaves.
ir::Value all_finite(ir::Function& function, const ir::Values& leaves);

// norm <= limit ? 1 : limit / norm, all rank-0 f32. A norm of 0 gives 1, an infinite limit gives 1
// for every finite norm, and a norm that is NaN gives NaN.
ir::Value clip_scale(ir::Value norm, ir::Value limit);

}  // namespace strata::optim
