// The registry of model families by `model_type`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "strata/base/json.h"
#include "strata/models/causal_lm.h"

namespace strata::models {

// The known values of model_type.
std::vector<std::string> known_model_types();

// Builds the model that a config.json describes, with the transforms that stand there
// (nn::kTransformsKey): shapes only. Throws unimplemented listing the known types and the nearest
// when the type is not one of them; data_loss (models.transforms) when the transforms are no list,
// and as nn::transform_from_json and nn::ModelTransform::apply.
std::unique_ptr<CausalLm> build_model(const Json& config, const std::string& where);

// The same from DIRECTORY/config.json.
std::unique_ptr<CausalLm> build_model(const std::filesystem::path& directory);

// A config.json with these transforms (CausalLm::transforms) in place of what it says of them.
Json with_transforms(Json config, const Json& transforms);

}  // namespace strata::models
