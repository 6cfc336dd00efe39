// The keys of config.json that llama and qwen3 spell alike.
#pragma once

#include "strata/models/config_reader.h"
#include "strata/models/dense_decoder.h"

namespace strata::models {

// Everything but what is particular to a family (biases, q/k norm). `default_head_dim` 0 means
// hidden_size / num_attention_heads.
DenseDecoderConfig read_dense_config(const ConfigReader& config, int64_t default_head_dim);

}  // namespace strata::models
