// The weight average that a checkpoint keeps, as a model's weights.
#pragma once

#include <filesystem>
#include <memory>

#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {

// Begins the names of the slots that hold averages.
inline constexpr const char* kAverageRole = "ema/";

// The parameters of `checkpoint` under their names: the average of those that the run trained, the
// others as they are. Throws failed_precondition (checkpoint.no_average) when it keeps none, and as
// CheckpointFiles.
std::unique_ptr<weights::TensorSource> open_average(const std::filesystem::path& checkpoint);

// open_average, or weights::open_source without `average`.
std::unique_ptr<weights::TensorSource> open_weights(const std::filesystem::path& path,
                                                    bool average);

}  // namespace strata::checkpoint
