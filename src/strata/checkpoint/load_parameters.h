// Filling a model's parameters from a checkpoint's tensors, straight from the mapped file to the
// device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strata/checkpoint/tree_reader.h"
#include "strata/runtime/array.h"
#include "strata/sharding/manifest.h"
#include "strata/sharding/mesh.h"
#include "strata/weights/stacked_tree.h"
#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {

struct LoadOptions {
  // The devices, and the sizes of the mesh axes that the manifest's dims name.
  sharding::Mesh mesh = {};
  // Names the source may hold that the model does not want. The second names of tied parameters
  // ("lm_head.weight") need no mention.
  std::vector<std::string> ignorable = {};
  // What form the source must have; without it any will do.
  weights::TreeDemand form = {};
  // Whether every float is checked; a NaN or infinity is an error naming tensor and place.
  bool check_finite = true;
};

// One float32 array a slot of the manifest, in its order, laid out over the mesh as the slot's dims
// say: each device takes its part straight from the map. A stacked slot takes one layer after
// another from the unstacked tensors. Loading is total: all missing, extra and wrong-shape names
// are one error (weights::check_total) and nothing is allocated before. The source may hold the
// layers stacked (weights/stacked_tree.h), whatever form the manifest has. Tensors of bf16, f16 or
// another float type are widened exactly. Mapped pages are dropped once consumed: memory stays at
// one model plus one widened tensor.
// Throws data_loss (checkpoint.not_finite), and as weights::unstack, check_tied and
// sharding::check_layout.
std::vector<runtime::Array> load_parameters(const sharding::Manifest& manifest,
                                            const weights::TensorSource& source,
                                            const runtime::ClientPtr& client,
                                            const LoadOptions& options = {});

}  // namespace strata::checkpoint
