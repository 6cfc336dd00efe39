// The list of every op, in alphabetical order of its file: the test harness walks it.
#pragma once

#include <vector>

#include "strata/ir/ir.h"

namespace strata::ops {

std::vector<const ir::OpDef*> all_ops();

}  // namespace strata::ops
