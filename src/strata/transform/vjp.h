// Reverse-mode differentiation.
#pragma once

#include "strata/ir/ir.h"

namespace strata::transform {

// The gradient of Σ_i <cotangents[i], outputs[i]> with respect to each input, traced into the
// region being traced. A null cotangent counts as zero; a null result is a gradient that is zero
// for sure (the input is not used, or only through integers). Each gradient has its input's type.
//
// Inputs must have been traced in the current region (usually they are parameters). Scans and
// calls that lie on the way are extended by the values their remat policy saves.
// Throws unimplemented naming the op when one on the way has no gradient rule, invalid_argument
// when a cotangent's type is not its output's.
ir::Values vjp(const ir::Values& outputs, const ir::Values& cotangents, const ir::Values& inputs);

// The gradient of a rank-0 float `loss`; zeros instead of null.
ir::Values gradient(ir::Value loss, const ir::Values& inputs);

}  // namespace strata::transform
