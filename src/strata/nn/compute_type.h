// In which element types a program computes.
#pragma once

#include "strata/ir/ir.h"
#include "strata/sharding/manifest.h"

namespace strata::nn {

// A slot's value as a Context takes it: floats of parameters and adapters in the type to compute
// in, buffers in their own, as what they hold (scales, tables) is exact.
ir::Value in_compute_type(const sharding::Slot& slot, ir::Value value, DType compute);

}  // namespace strata::nn
