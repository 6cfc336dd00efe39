// Llama (model_type "llama"; also SmolLM2 and other models in its form).
#pragma once

#include <memory>

#include "strata/models/causal_lm.h"
#include "strata/models/config_reader.h"

namespace strata::models {

// RoPE default, linear, llama3 or yarn; optional attention and MLP bias; head_dim defaults to
// hidden_size / num_attention_heads; tied or untied head. Throws naming file and key.
std::unique_ptr<CausalLm> build_llama(const ConfigReader& config);

}  // namespace strata::models
