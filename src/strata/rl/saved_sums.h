// The sums of gradients in a checkpoint that was saved in the middle of a step. They are loaded as
// they lie when the mesh cuts the batch as the one that saved did, to the bit. Otherwise the parts
// that its devices held are added up first.
#pragma once

#include <vector>

#include "strata/checkpoint/checkpoint_index.h"
#include "strata/optim/update.h"
#include "strata/runtime/array.h"
#include "strata/sharding/mesh.h"

namespace strata::rl {

// The types to load plan.accumulator() in: its own, or whole arrays with the parts of the
// checkpoint. Empty when the checkpoint has no sums.
std::vector<sharding::Slot> saved_sum_types(const checkpoint::CheckpointIndex& index,
                                            const optim::UpdatePlan& plan);

// What was loaded so, as plan.accumulator() says.
std::vector<runtime::Array> planned_sums(std::vector<runtime::Array> loaded,
                                         const optim::UpdatePlan& plan, const sharding::Mesh& mesh,
                                         const runtime::ClientPtr& client);

}  // namespace strata::rl
