// Reductions. Axes may be negative; they are dropped unless `keep` says otherwise. Sums of bf16
// and f16 accumulate in the element type: convert first where float32 is wanted. What max and min
// make of NaN is left to the plug-in, as in elementwise.h.
#pragma once

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kReduce;

// Numbers. The gradient of max and min goes in equal parts to the elements that attain it.
ir::Value reduce_sum(ir::Value x, Dims axes, bool keep = false);
ir::Value reduce_max(ir::Value x, Dims axes, bool keep = false);
ir::Value reduce_min(ir::Value x, Dims axes, bool keep = false);
ir::Value reduce_product(ir::Value x, Dims axes, bool keep = false);
// Predicates.
ir::Value reduce_and(ir::Value x, Dims axes, bool keep = false);
ir::Value reduce_or(ir::Value x, Dims axes, bool keep = false);
// Sum divided by the number of elements (floats).
ir::Value reduce_mean(ir::Value x, Dims axes, bool keep = false);
// Index (i32) of the largest element along one axis; ties go to the lowest index and NaN counts
// as +inf.
ir::Value argmax(ir::Value x, int64_t axis);
// log Σ exp(x) along one axis, kept; computed around the maximum; -inf rows give -inf.
ir::Value log_sum_exp(ir::Value x, int64_t axis);
// x − log_sum_exp(x).
ir::Value log_softmax(ir::Value x, int64_t axis);
// exp(log_softmax(x)); rows of -inf give zeros, not NaN.
ir::Value softmax(ir::Value x, int64_t axis);

}  // namespace strata::ops
