// Rewriting a model directory with its layers stacked, or one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint.h"
#include "strata/sharding/manifest.h"
#include "strata/weights/stacked_tree.h"

namespace strata::checkpoint {

// Names of the stacked tensors: STACK.LEAF, or STACK.layer_SLOT.LEAF. Where several runs of a stack
// are scanned, those but the longest say whose layers they hold: STACK.layers_B_E.LEAF.
enum class TreeNames : uint8_t { stacked, cycle };

struct ConvertOptions {
  TreeNames names = TreeNames::stacked;
  // What form the source must have; without it any will do.
  weights::TreeDemand from = {};
  // Takes the weight average that the source, a checkpoint, keeps (average_source.h).
  bool average = false;
  std::vector<std::string> ignorable = {};  // as LoadOptions; what the source has of them is kept
  uint64_t max_shard_bytes = 5'000'000'000;
  ProgressFn progress = {};
};

struct ConvertReport {
  size_t tensors = 0;
  uint64_t bytes = 0;
  std::string form;  // "one tensor a layer", "model.layers stacked at axis 1"
};

// Writes the model directory `target` in one piece from the model directory, checkpoint or stacked
// tree `source`, in the form of `model`: a manifest without stacked slots gives a Hugging Face
// directory, one with scanned runs a stacked tree, in which layers outside of them stay single.
// Tensors keep their element types and bytes. Memory grows by one bucket, a stacked tensor whose
// layer dim is not the first. Throws already_exists (file.exists), not_found
// (checkpoint.no_config), invalid_argument (checkpoint.convert_cycle: layers of several kinds need
// cycle names; checkpoint.convert_dtype: layers of several element types cannot be one tensor), and
// as weights::unstack, check_total and the file functions; a failure leaves nothing behind.
ConvertReport convert_tree(const std::filesystem::path& source, const std::filesystem::path& target,
                           const sharding::Manifest& model, const ConvertOptions& options = {});

}  // namespace strata::checkpoint
