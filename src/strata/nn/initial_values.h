// What the fields that model transforms declared start from, in a model whose files hold none.
#pragma once

#include <memory>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/nn/module.h"
#include "strata/nn/structure.h"

namespace strata::nn {

// The slots of the manifest whose members all have an initial value, ascending.
struct InitialValues {
  std::unique_ptr<ir::Function> function;
  std::vector<size_t> slots;
};

// Traces Module::initial_values of the whole model.
//   inputs   every slot of the kind param, in the manifest's order; a key, u32 (2)
//   results  InitialValues::slots, laid out as the manifest says
// A layer's values are of its own key and parameters, so they are the same however the layers run
// and whatever the mesh.
InitialValues initial_values(const Module& root, const Structure& structure);

}  // namespace strata::nn
