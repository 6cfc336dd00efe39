// Operators on traced values with NumPy-style broadcasting, for model code. They live beside
// ir::Value so that argument-dependent lookup finds them. Element types must agree; a number on
// one side takes the other side's element type. Each is the op of elementwise.h plus broadcasts.
#pragma once

#include "strata/ir/ir.h"

namespace strata::ops {

// x and y broadcast to common dims (trailing dims aligned, size 1 stretches). Throws
// invalid_argument naming both types.
std::pair<ir::Value, ir::Value> broadcast_together(ir::Value x, ir::Value y);

// x with dims stretched or prepended up to `dims`.
ir::Value broadcast_to(ir::Value x, const Dims& dims);

}  // namespace strata::ops

namespace strata::ir {

Value operator+(Value x, Value y);
Value operator-(Value x, Value y);
Value operator*(Value x, Value y);
Value operator/(Value x, Value y);
Value operator+(Value x, double y);
Value operator-(Value x, double y);
Value operator*(Value x, double y);
Value operator/(Value x, double y);
Value operator+(double x, Value y);
Value operator-(double x, Value y);
Value operator*(double x, Value y);
Value operator/(double x, Value y);
Value operator-(Value x);

}  // namespace strata::ir
