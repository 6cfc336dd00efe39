// Ops that steer the compiler: barriers, sharding constraints, custom calls.
#pragma once

#include <string>
#include <vector>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kOptimizationBarrier;

// The same values; the compiler neither merges nor moves work across. Throws on an empty list.
ir::Values optimization_barrier(const ir::Values& xs);

}  // namespace strata::ops
