// The same computation on each part of a batch, with nothing summed over the parts: what every
// device of a data-parallel axis does by itself until it is told to meet the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kOnParts;

// The mesh axes of each dim of a value, major first (ir::axes_of).
using DimAxes = std::vector<std::vector<std::string>>;

// Runs `body` on each of the parts into which the mesh axes `split` (not empty) cut `inputs`: where
// `in[i]` has these axes at the head of a dim, the body sees one part of that dim, and elsewhere
// the whole input, which all parts share. A result whose layout `out[i]` has them at the head of a
// dim is put together from the parts along it; what no part changes may be a result without them.
// So the sum over a part's rows stays with the part: a weight's gradient given as (1, dims…) under
// {split, {}, …} becomes (parts, dims…), one partial sum on each device.
// It is one program for the whole mesh: every value that depends on a part has a first dim that
// counts the parts, sharded over `split`, and the partitioner, which knows all other axes, has
// nothing to exchange along these. (Shardy's manual computations would say the same, but the pinned
// plug-in ends the process when two other axes shard what lies inside.)
// The body uses only what it is given, constants aside. No gradient rule: differentiate inside.
// Throws invalid_argument "ops.on_parts" when sizes do not divide, a dim has the axes elsewhere
// than at its head or not all of them, numbers differ, or the body uses an outer value; lowering
// throws unimplemented (ops.on_parts_op) naming an op whose batched form is not known.
ir::Values on_parts(ir::Function& function, const ir::Values& inputs,
                    const std::vector<DimAxes>& in, const std::vector<DimAxes>& out,
                    const std::vector<std::string>& split,
                    const std::function<ir::Values(const ir::Values&)>& body);

}  // namespace strata::ops
