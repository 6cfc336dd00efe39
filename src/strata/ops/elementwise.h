// Elementwise ops. All operands have the same dims (no implicit broadcasting: see arithmetic.h);
// operands of one op have the same element type unless said otherwise. Misuse throws
// invalid_argument with id ops.<name>.
#pragma once

#include <string_view>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kAbs, kCeil, kCosine, kErf, kErfInv, kExponential, kExponentialMinusOne,
    kFloor, kIsFinite, kLog, kLogPlusOne, kLogistic, kNegate, kNot, kRoundNearestEven, kRsqrt,
    kSign, kSine, kSqrt, kTanh;
extern const ir::OpDef kAdd, kAnd, kAtan2, kDivide, kMaximum, kMinimum, kMultiply, kOr, kPower,
    kRemainder, kShiftLeft, kShiftRightArithmetic, kShiftRightLogical, kSubtract, kXor;
extern const ir::OpDef kBitcastConvert, kClamp, kCompare, kConvert, kSelect, kStopGradient, kTag;

// Floats. Gradients: the textbook ones; abs and sign use sign(0) = 0.
ir::Value abs(ir::Value x);
ir::Value ceil(ir::Value x);
ir::Value cosine(ir::Value x);
ir::Value erf(ir::Value x);
ir::Value erf_inv(ir::Value x);  // of [-1, 1]; infinite at the ends
ir::Value exponential(ir::Value x);
ir::Value exponential_minus_one(ir::Value x);
ir::Value floor(ir::Value x);
ir::Value is_finite(ir::Value x);  // pred
ir::Value log(ir::Value x);
ir::Value log_plus_one(ir::Value x);
ir::Value logistic(ir::Value x);
ir::Value negate(ir::Value x);
ir::Value round_nearest_even(ir::Value x);
ir::Value rsqrt(ir::Value x);
ir::Value sign(ir::Value x);
ir::Value sine(ir::Value x);
ir::Value sqrt(ir::Value x);
ir::Value tanh(ir::Value x);

// Numbers. maximum and minimum split the gradient evenly where the operands are equal; what they
// make of NaN is left to the plug-in (the CPU ones give back the first operand): look for NaN with
// is_finite or compare(x, x, "NE").
ir::Value add(ir::Value x, ir::Value y);
ir::Value subtract(ir::Value x, ir::Value y);
ir::Value multiply(ir::Value x, ir::Value y);
ir::Value divide(ir::Value x, ir::Value y);  // integers truncate
ir::Value maximum(ir::Value x, ir::Value y);
ir::Value minimum(ir::Value x, ir::Value y);
ir::Value power(ir::Value x, ir::Value y);
ir::Value remainder(ir::Value x, ir::Value y);  // sign of the dividend
ir::Value atan2(ir::Value y, ir::Value x);

// Integers and predicates (the C++ keywords and, or, xor, not carry an underscore).
ir::Value and_(ir::Value x, ir::Value y);
ir::Value or_(ir::Value x, ir::Value y);
ir::Value xor_(ir::Value x, ir::Value y);
ir::Value not_(ir::Value x);
ir::Value shift_left(ir::Value x, ir::Value y);
ir::Value shift_right_logical(ir::Value x, ir::Value y);
ir::Value shift_right_arithmetic(ir::Value x, ir::Value y);

// Direction is one of EQ NE GE GT LE LT; the result is pred. NaN compares unequal to everything.
ir::Value compare(ir::Value x, ir::Value y, std::string_view direction);
// `compare`, but floats are ordered totally: -NaN, -inf, …, -0, +0, …, +inf, NaN.
ir::Value compare_total(ir::Value x, ir::Value y, std::string_view direction);
// pred ? x : y; `pred` has x's dims or is a scalar. The gradient of the side not taken is zero.
ir::Value select(ir::Value pred, ir::Value x, ir::Value y);
// min(max(x, low), high); the gradient flows to x inside the bounds (inclusive) only; low and high
// get none.
ir::Value clamp(ir::Value low, ir::Value x, ir::Value high);
// Value conversion to another element type (x itself if it is that already).
ir::Value convert(ir::Value x, DType dtype);
// The same bits under another type of the same width.
ir::Value bitcast_convert(ir::Value x, DType dtype);

// x, with a zero gradient.
ir::Value stop_gradient(ir::Value x);
// x, named for remat policy `names` and for taps.
ir::Value tag(ir::Value x, std::string_view name);

}  // namespace strata::ops
