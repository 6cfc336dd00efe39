// The keys of config.json that llama and qwen3 spell alike.
#pragma once

#include "strata/models/config_reader.h"
#include "strata/models/dense_decoder.h"

namespace strata::models {

// What a family assumes of a config.json that leaves a key out.
struct DenseDefaults {
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  int64_t max_positions = 2048;
};

// Everything but what is particular to a family (biases, q/k norm). Keys of other architectures
// that would change what is computed (quantised weights, soft caps, multipliers, sliding layers
// ...) are refused by name.
DenseDecoderConfig read_dense_config(const ConfigReader& config, const DenseDefaults& defaults);

}  // namespace strata::models
