#include "strata/models/qwen3.h"

#include "strata/models/dense_config.h"

namespace strata::models {
std::unique_ptr<CausalLm> build_qwen3(const ConfigReader& c) {
  DenseDecoderConfig config = read_dense_config(c, {.head_dim = 128, .max_positions = 32768});
  bool bias = c.flag_or("attention_bias", false);
  config.attention.qkv_bias = bias;
  config.attention.out_bias = bias;
  config.attention.qk_norm = true;
  return std::make_unique<DenseDecoder>(config);
}

}  // namespace strata::models
