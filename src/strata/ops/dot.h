// Matrix products.
#pragma once

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kDotGeneral;

// Which dims of each side are batch (paired, kept first) and contracted (paired, summed).
struct DotDims {
  Dims lhs_batch = {}, rhs_batch = {};
  Dims lhs_contract = {}, rhs_contract = {};
};

// Σ over the contracted dims; the result's dims are batch, then lhs's rest, then rhs's rest, in
// order. f32 products are true f32 (precision HIGHEST: no TF32). The result has the operands'
// element type unless `result` names a wider one. Throws invalid_argument on sizes that differ.
ir::Value dot_general(ir::Value lhs, ir::Value rhs, const DotDims& dims);
ir::Value dot_general(ir::Value lhs, ir::Value rhs, const DotDims& dims, DType result);

// x (…, in) times weight (out, in) transposed: (…, out). The layout of HF checkpoints.
ir::Value linear(ir::Value x, ir::Value weight);

}  // namespace strata::ops
