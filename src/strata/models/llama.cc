#include "strata/models/llama.h"

#include "strata/models/dense_config.h"

namespace strata::models {

std::unique_ptr<CausalLm> build_llama(const ConfigReader& c) {
  DenseDecoderConfig config = read_dense_config(c, {});
  bool bias = c.flag_or("attention_bias", false);
  config.attention.qkv_bias = bias;
  config.attention.out_bias = bias;
  config.mlp_bias = c.flag_or("mlp_bias", false);
  return std::make_unique<DenseDecoder>(config);
}

}  // namespace strata::models
