#include "strata/ops/shared_stack.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using ir::Value;

// Where step `index` is: its place in a part, and which of the parts (…, parts, …) is the owner's.
struct Place {
  Value inner;
  Value owner;  // predicate of `dims`
};

Place place_of(const Value& stack, const Value& index, int64_t axis) {
  Dims dims = stack.dims();
  const int64_t length = dims[static_cast<size_t>(axis) + 1];
  dims.erase(dims.begin() + axis + 1);
  Value each = full_like(index, static_cast<double>(length));
  Value part = broadcast_in_dim(divide(index, each), dims, {});
  Value number = iota(index.function(), index.dtype(), dims, axis);
  return {remainder(index, each), compare(number, part, "EQ")};
}

}  // namespace

Value in_parts(Value stack, int64_t axis, const StackParts& p) {
  if (p.parts == 1) return stack;
  Dims dims = stack.dims();
  dims[static_cast<size_t>(axis)] /= p.parts;
  dims.insert(dims.begin() + axis, p.parts);
  return sharding_constraint(reshape(stack, dims), p.sharding);
}

Value in_whole(Value stack, int64_t axis, const StackParts& p) {
  if (p.parts == 1) return stack;
  Dims dims = stack.dims();
  dims.erase(dims.begin() + axis);
  dims[static_cast<size_t>(axis)] *= p.parts;
  return reshape(sharding_constraint(stack, p.sharding), dims);
}

Value read_step(Value stack, Value index, int64_t axis, const StackParts& p) {
  if (p.parts == 1) return dynamic_index(stack, index, axis);
  Place at = place_of(stack, index, axis);
  Value mine = dynamic_index(stack, at.inner, axis + 1);
  return reduce_sum(select(at.owner, mine, full_like(mine, 0)), {axis});
}

Value write_step(Value stack, Value step, Value index, int64_t axis, const StackParts& p) {
  if (p.parts == 1) return dynamic_update_index(stack, step, index, axis);
  Place at = place_of(stack, index, axis);
  Value before = dynamic_index(stack, at.inner, axis + 1);
  Dims axes;  // of the step's dims among the parts'
  for (int64_t i = 0; i < before.rank(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  Value after = select(at.owner, broadcast_in_dim(step, before.dims(), axes), before);
  return dynamic_update_index(stack, after, at.inner, axis + 1);
}

}  // namespace strata::ops
