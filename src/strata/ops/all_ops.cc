#include "strata/ops/all_ops.h"

#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::ops {

std::vector<const ir::OpDef*> all_ops() {
  return {// constant.h
          &kConstant, &kIota,
          // dot.h
          &kDotGeneral,
          // elementwise.h
          &kAbs, &kCeil, &kCosine, &kErf, &kExponential, &kExponentialMinusOne, &kFloor, &kIsFinite,
          &kLog, &kLogPlusOne, &kLogistic, &kNegate, &kNot, &kRoundNearestEven, &kRsqrt, &kSign,
          &kSine, &kSqrt, &kTanh, &kAdd, &kAnd, &kAtan2, &kDivide, &kMaximum, &kMinimum, &kMultiply,
          &kOr, &kPower, &kRemainder, &kShiftLeft, &kShiftRightArithmetic, &kShiftRightLogical,
          &kSubtract, &kXor, &kBitcastConvert, &kClamp, &kCompare, &kConvert, &kSelect,
          &kStopGradient, &kTag,
          // reduce.h
          &kReduce,
          // shape.h
          &kBroadcastInDim, &kConcatenate, &kDynamicSlice, &kDynamicUpdateSlice, &kPad, &kReshape,
          &kReverse, &kSlice, &kTranspose};
}

}  // namespace strata::ops
