// Constants and iota: ops without operands, so they name their function.
#pragma once

#include <memory>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kConstant;
extern const ir::OpDef kIota;

// The given tensor. The bytes are shared, never copied.
ir::Value constant(ir::Function& function, std::shared_ptr<const HostTensor> value);
// A rank-0 constant, rounded to `dtype`.
ir::Value scalar(ir::Function& function, DType dtype, double value);
// A scalar broadcast to `dims`.
ir::Value full(ir::Function& function, DType dtype, const Dims& dims, double value);
// `full` with x's type.
ir::Value full_like(const ir::Value& x, double value);

// The least and greatest value of a type, rank 0: infinities for floats, exact for all integers;
// false and true for predicates.
ir::Value lowest(ir::Function& function, DType dtype);
ir::Value highest(ir::Function& function, DType dtype);

// 0, 1, 2 … along `axis` of a tensor of the given type. Throws on pred and on an axis ≥ rank.
ir::Value iota(ir::Function& function, DType dtype, const Dims& dims, int64_t axis);

}  // namespace strata::ops
