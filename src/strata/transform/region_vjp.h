// Gradients of ops with bodies. Internal to room transform.
//
// A body is differentiated in a scratch region that holds its forward and its reverse sweep. What
// the reverse part uses of the forward part is then split by the remat policy into values that are
// saved (the forward op gets them as extra results), values at hand (loop inputs, constants) and
// values computed again. One algorithm serves scan and call, and every policy.
#pragma once

#include <vector>

#include "strata/ir/ir.h"

namespace strata::transform {

// Gradients of the operands of a region op; `needs[i]` says which are wanted (others may be null).
// The node is extended in place by the results that its reverse sweep reads.
ir::Values region_gradient(ir::Node& node, const ir::Values& cotangents,
                           const std::vector<bool>& needs);

}  // namespace strata::transform
