#include "strata/models/foreign_keys.h"

#include <algorithm>
#include <array>

namespace strata::models {
namespace {

// Stands for "no value of this key does nothing".
constexpr double kNever = -1;

struct ForeignKey {
  const char* key;
  double off;  // the number at which the key does nothing
  const char* what;
};

constexpr const char* kQuantised = "weights that are not quantised";
constexpr const char* kCap = "no soft cap";
constexpr const char* kMultiplier = "no multiplier";
constexpr const char* kSameLayers = "layers that are all alike";
constexpr const char* kRotary = "rotary positions, halves rotated";
constexpr const char* kCausal = "causal attention over the whole context";
constexpr const char* kNorms = "the norms of the family";

constexpr std::array kForeignKeys{
    ForeignKey{"quantization_config", kNever, kQuantised},
    ForeignKey{"compression_config", kNever, kQuantised},
    ForeignKey{"attn_logit_softcapping", 0, kCap},
    ForeignKey{"attention_logit_softcapping", 0, kCap},
    ForeignKey{"attn_logit_cap", 0, kCap},
    ForeignKey{"final_logit_softcapping", 0, kCap},
    ForeignKey{"final_logit_softcap", 0, kCap},
    ForeignKey{"logits_soft_cap", 0, kCap},
    ForeignKey{"logit_softcap", 0, kCap},
    ForeignKey{"clip_qkv", kNever, "no clipping of queries, keys and values"},
    ForeignKey{"qkv_clip", kNever, "no clipping of queries, keys and values"},
    ForeignKey{"logit_scale", 1, kMultiplier},
    ForeignKey{"logits_scaling", 1, kMultiplier},
    ForeignKey{"lm_head_multiplier", 1, kMultiplier},
    ForeignKey{"embedding_multiplier", 1, kMultiplier},
    ForeignKey{"embedding_scale", 1, kMultiplier},
    ForeignKey{"scale_emb", 1, kMultiplier},
    ForeignKey{"scale_depth", kNever, kMultiplier},
    ForeignKey{"residual_multiplier", 1, kMultiplier},
    ForeignKey{"attention_multiplier", kNever, kMultiplier},
    ForeignKey{"key_multiplier", 1, kMultiplier},
    ForeignKey{"query_pre_attn_scalar", kNever, kMultiplier},
    ForeignKey{"attn_scale", kNever, kMultiplier},
    ForeignKey{"attn_temperature_tuning", 0, kMultiplier},
    ForeignKey{"no_rope_layers", kNever, kSameLayers},
    ForeignKey{"no_rope_layer_interval", 0, kSameLayers},
    ForeignKey{"block_configs", kNever, kSameLayers},
    ForeignKey{"per_layer_config", kNever, kSameLayers},
    ForeignKey{"num_kv_shared_layers", 0, kSameLayers},
    ForeignKey{"first_k_dense_replace", 0, kSameLayers},
    ForeignKey{"num_experts", 0, "one MLP in each layer"},
    ForeignKey{"num_local_experts", 0, "one MLP in each layer"},
    ForeignKey{"n_routed_experts", 0, "one MLP in each layer"},
    ForeignKey{"alibi", 0, kRotary},
    ForeignKey{"use_alibi", 0, kRotary},
    ForeignKey{"rope_interleaved", 0, kRotary},
    ForeignKey{"rope_interleave", 0, kRotary},
    ForeignKey{"parallel_residual", 0, "attention before the MLP"},
    ForeignKey{"use_parallel_residual", 0, "attention before the MLP"},
    ForeignKey{"parallel_attn", 0, "attention before the MLP"},
    ForeignKey{"use_bidirectional_attention", 0, kCausal},
    ForeignKey{"attention_chunk_size", 0, kCausal},
    ForeignKey{"attention_sinks", 0, kCausal},
    ForeignKey{"add_swa_attention_sink_bias", 0, kCausal},
    ForeignKey{"use_post_norm", 0, kNorms},
    ForeignKey{"sandwich_norm", 0, kNorms},
    ForeignKey{"use_layernorm", 0, kNorms},
};

bool is_off(const Json& value, double off) {
  if (value.is_number()) return value.get<double>() == off;
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_null() || value.empty() || value == "none";
}

[[noreturn]] void refuse(const ConfigReader& c, const std::string& key, const std::string& expected,
                         const std::string& cure) {
  unimplemented({.id = "models.foreign_key",
                 .where = c.where() + ", key '" + key + "'",
                 .expected = expected,
                 .got = c.object()[key].dump().substr(0, 80),
                 .cure = cure});
}

// Index of the first sliding layer as transformers counts when `layer_types` is absent, or -1.
int64_t first_sliding(const ConfigReader& c, int64_t layers) {
  bool off = c.object().contains("sliding_window") && !c.has("sliding_window");
  if (!c.flag_or("use_sliding_window", false) || off) return -1;
  double first = std::max(c.number_or("max_window_layers", 28), 0.0);
  return first < static_cast<double>(layers) ? static_cast<int64_t>(first) : -1;
}

}  // namespace

void refuse_foreign_keys(const ConfigReader& c) {
  for (const ForeignKey& f : kForeignKeys) {
    if (!c.has(f.key) || is_off(c.object()[f.key], f.off)) continue;
    std::string cure = f.what == kQuantised ? "Dequantise the weights and remove the key" : "";
    refuse(c, f.key, f.what, cure);
  }
  if (!c.flag_or("is_causal", true)) refuse(c, "is_causal", kCausal, "");
}

void refuse_sliding_layers(const ConfigReader& c, const LmConfig& lm) {
  int64_t sliding = first_sliding(c, lm.layers);
  std::string got = "layer " + std::to_string(sliding) + " slides (use_sliding_window = true)";
  if (c.has("layer_types")) {
    const Json& types = c.object()["layer_types"];
    require(types.is_array() && static_cast<int64_t>(types.size()) == lm.layers,
            {.id = "models.layer_types",
             .where = c.where() + ", key 'layer_types'",
             .expected = "a list of " + std::to_string(lm.layers) + " layer types",
             .got = types.dump().substr(0, 60)});
    sliding = -1;
    for (size_t i = 0; i < types.size() && sliding < 0; ++i) {
      if (types[i] == "full_attention") continue;
      sliding = static_cast<int64_t>(i);
      got = "layer " + std::to_string(i) + " of type " + types[i].dump();
    }
  }
  // A window as long as the context hides nothing.
  bool all = c.number_or("sliding_window", 4096) >= static_cast<double>(lm.max_positions);
  if (sliding < 0 || all) return;
  unimplemented({.id = "models.sliding_attention",
                 .where = c.where(),
                 .expected = "full attention in every layer",
                 .got = got,
                 .cure = "Sliding windows are not supported"});
}

}  // namespace strata::models
