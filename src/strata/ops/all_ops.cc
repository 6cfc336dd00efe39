#include "strata/ops/all_ops.h"

#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/grouped_dot.h"
#include "strata/ops/linalg.h"
#include "strata/ops/misc.h"
#include "strata/ops/parts.h"
#include "strata/ops/random.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/ops/sort.h"

namespace strata::ops {

std::vector<const ir::OpDef*> all_ops() {
  return {// constant.h
          &kConstant, &kIota,
          // control.h
          &kCall, &kIf, &kScan, &kWhile,
          // dot.h
          &kDotGeneral,
          // elementwise.h
          &kAbs, &kCeil, &kCosine, &kErf, &kErfInv, &kExponential, &kExponentialMinusOne, &kFloor,
          &kIsFinite, &kLog, &kLogPlusOne, &kLogistic, &kNegate, &kNot, &kRoundNearestEven, &kRsqrt,
          &kSign, &kSine, &kSqrt, &kTanh, &kAdd, &kAnd, &kAtan2, &kDivide, &kMaximum, &kMinimum,
          &kMultiply, &kOr, &kPower, &kRemainder, &kShiftLeft, &kShiftRightArithmetic,
          &kShiftRightLogical, &kSubtract, &kXor, &kBitcastConvert, &kClamp, &kCompare, &kConvert,
          &kSelect, &kStopGradient, &kTag,
          // gather.h
          &kGather, &kScatter,
          // grouped_dot.h
          &kGroupedDot, &kGroupedOuter,
          // linalg.h
          &kTriangularSolve,
          // misc.h
          &kCustomCall, &kOptimizationBarrier, &kPlacement, &kShardingConstraint,
          // parts.h
          &kOnParts,
          // random.h
          &kThreefry2x32,
          // reduce.h
          &kReduce,
          // shape.h
          &kBroadcastInDim, &kConcatenate, &kDynamicSlice, &kDynamicUpdateSlice, &kPad, &kReshape,
          &kReverse, &kSlice, &kTranspose,
          // sort.h
          &kSort, &kTopK};
}

}  // namespace strata::ops
