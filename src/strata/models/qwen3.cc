#include "strata/models/qwen3.h"

#include "strata/models/dense_config.h"

namespace strata::models {
namespace {

void refuse_sliding_layers(const ConfigReader& c, int64_t layers) {
  bool sliding = c.flag_or("use_sliding_window", false) && c.has("sliding_window");
  std::string got = "use_sliding_window = true";
  if (c.has("layer_types")) {
    const Json& types = c.object()["layer_types"];
    require(types.is_array() && static_cast<int64_t>(types.size()) == layers,
            {.id = "models.layer_types",
             .where = c.where() + ", key 'layer_types'",
             .expected = "a list of " + std::to_string(layers) + " layer types",
             .got = types.dump().substr(0, 60)});
    sliding = false;
    for (size_t i = 0; i < types.size() && !sliding; ++i) {
      sliding = types[i] != "full_attention";
      got = "layer " + std::to_string(i) + " of type " + types[i].dump();
    }
  }
  if (!sliding) return;
  unimplemented({.id = "models.sliding_attention",
                 .where = c.where(),
                 .expected = "full attention in every layer",
                 .got = got,
                 .cure = "Sliding windows are not supported"});
}

}  // namespace

std::unique_ptr<CausalLm> build_qwen3(const ConfigReader& c) {
  DenseDecoderConfig config = read_dense_config(c, 128);
  refuse_sliding_layers(c, config.lm.layers);
  bool bias = c.flag_or("attention_bias", false);
  config.attention.qkv_bias = bias;
  config.attention.out_bias = bias;
  config.attention.qk_norm = true;
  return std::make_unique<DenseDecoder>(config);
}

}  // namespace strata::models
