// The plan of one stack: what its layers share and which of them run as loops.
#pragma once

#include <string>
#include <vector>

#include "strata/nn/layer_stack.h"
#include "strata/nn/scan_planner.h"
#include "strata/nn/sharing.h"

namespace strata::nn {

struct StackPlan {
  sharding::LayerPlan plan;
  Sharing sharing;
  // For each run, how many slots of its cycle in a row run as one inner loop; see
  // ScanOptions::nested.
  std::vector<std::vector<int64_t>> neighbours;
  // Why neighbours did not merge, and other reasons for layers outside of loops; none in mode off.
  std::vector<std::string> reasons;
};

// The runs of a non-empty stack: plan_runs over the fingerprints of its layers. Throws
// invalid_argument when layers that are otherwise alike hold a buffer per layer in several shapes.
StackPlan plan_layers(const LayerStack& stack, const ScanOptions& options);

}  // namespace strata::nn
