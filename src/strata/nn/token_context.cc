#include "strata/nn/token_context.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/shape.h"

namespace strata::nn {

using ir::Value;

Value segment_mask(Value segments, Value parents) {
  int64_t rows = segments.dim(0), tokens = segments.dim(1);
  Dims square{rows, tokens, tokens};
  Value query = ops::broadcast_in_dim(segments, square, {0, 1});
  Value key = ops::broadcast_in_dim(segments, square, {0, 2});
  ir::Function& f = segments.function();
  Value row = ops::iota(f, DType::i32, square, 1), column = ops::iota(f, DType::i32, square, 2);
  Value same = ops::compare(query, key, "EQ");
  if (parents) {
    Value parent = ops::broadcast_in_dim(parents, square, {0, 1});
    same = ops::or_(same, ops::compare(parent, key, "EQ"));
  }
  same = ops::and_(same, ops::compare(key, ops::full_like(key, 0), "NE"));
  return ops::and_(same, ops::compare(row, column, "GE"));
}

Value cache_mask(Value start, int64_t tokens, int64_t length) {
  ir::Function& f = start.function();
  Dims dims{start.dim(0), tokens, length};
  Value own = ops::add(ops::broadcast_in_dim(start, dims, {0}), ops::iota(f, DType::i32, dims, 1));
  return ops::compare(ops::iota(f, DType::i32, dims, 2), own, "LE");
}

Value causal_mask(Value valid) { return segment_mask(ops::convert(valid, DType::i32)); }

}  // namespace strata::nn
