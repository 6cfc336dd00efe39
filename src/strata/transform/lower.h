// Lowering: ops that the compiler does not know (scan, call, tag …) become ops that it does.
#pragma once

#include <memory>

#include "strata/ir/ir.h"

namespace strata::transform {

// A copy of `function` in which every op can be printed. Dead nodes are left behind.
// Ports and module header are kept.
std::unique_ptr<ir::Function> lower(const ir::Function& function);

// lower + print_module: the compiler's input.
std::string program_text(const ir::Function& function, bool locations = true);

}  // namespace strata::transform
