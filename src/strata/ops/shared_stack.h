// Stacks whose steps are shared out over devices: a loop reads one step at a time from whoever has
// it. Left to itself the partitioner gathers the whole stack, since a running index may fall
// anywhere. ScanOptions (control.h) says which stacks a loop reads and writes so.
#pragma once

#include <string>

#include "strata/ir/ir.h"

namespace strata::ops {

// Of a stack of `length` steps part k holds the steps from k * length / parts on. `sharding` is
// Shardy's text for the stack with its axis as two dims, (parts, length / parts), of which the
// first lies on the mesh. One part: a stack like any other.
struct StackParts {
  int64_t parts = 1;
  std::string sharding = {};
};

// (…, length, …) as (…, parts, length / parts, …), each part on its devices; one part: as it is.
ir::Value in_parts(ir::Value stack, int64_t axis, const StackParts& p);
// The inverse.
ir::Value in_whole(ir::Value stack, int64_t axis, const StackParts& p);
// Step `index` of a stack in parts, without the stack's axis. Each part gives its own step at the
// same place in the part, all but the owner's as zeros; their sum is the one exchange.
ir::Value read_step(ir::Value stack, ir::Value index, int64_t axis, const StackParts& p);
// The stack in parts with step `index` replaced by `step`; nothing is exchanged.
ir::Value write_step(ir::Value stack, ir::Value step, ir::Value index, int64_t axis,
                     const StackParts& p);

}  // namespace strata::ops
