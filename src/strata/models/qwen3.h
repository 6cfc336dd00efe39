// Qwen3, dense (model_type "qwen3").
#pragma once

#include <memory>

#include "strata/models/causal_lm.h"
#include "strata/models/config_reader.h"

namespace strata::models {

// Per-head RMS norm of q and k before the rotation; head_dim defaults to 128; optional attention
// bias; tied or untied head. Sliding-window layers are refused as unimplemented. Throws naming
// file and key.
std::unique_ptr<CausalLm> build_qwen3(const ConfigReader& config);

}  // namespace strata::models
