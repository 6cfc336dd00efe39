#include "strata/models/dense_config.h"

#include "strata/models/foreign_keys.h"

namespace strata::models {
namespace {

// Far above any model; a larger number in a damaged file must not allocate.
constexpr int64_t kMostLayers = 10000;
constexpr int64_t kLargestHeadDim = 65536;

}  // namespace

DenseDecoderConfig read_dense_config(const ConfigReader& c, const DenseDefaults& defaults) {
  refuse_foreign_keys(c);
  if (c.text_or("hidden_act", "silu") != "swish") c.only("hidden_act", "silu");  // one function
  DenseDecoderConfig out;
  out.lm.model_type = c.text_or("model_type", "");
  out.lm.vocabulary = c.dimension("vocab_size");
  out.lm.hidden = c.dimension("hidden_size");
  out.lm.layers = c.dimension("num_hidden_layers", kMostLayers);
  out.lm.max_positions = c.dimension_or("max_position_embeddings", defaults.max_positions);
  out.lm.tied = c.flag_or("tie_word_embeddings", false);
  out.intermediate = c.dimension("intermediate_size");
  out.norm_eps = c.number_or("rms_norm_eps", 1e-6);
  nn::AttentionConfig& a = out.attention;
  a.hidden = out.lm.hidden;
  a.heads = c.dimension("num_attention_heads");
  a.kv_heads = c.dimension_or("num_key_value_heads", a.heads);
  int64_t head_dim = defaults.head_dim > 0 ? defaults.head_dim : out.lm.hidden / a.heads;
  a.head_dim = c.dimension_or("head_dim", head_dim, kLargestHeadDim);
  a.norm_eps = out.norm_eps;
  // Also what hidden_size / num_attention_heads gave.
  require(a.head_dim > 0 && a.head_dim <= kLargestHeadDim && a.head_dim % 2 == 0,
          {.id = "models.odd_head_dim",
           .where = c.where(),
           .expected = "an even head_dim in [2, " + std::to_string(kLargestHeadDim) + "]",
           .got = std::to_string(a.head_dim)});
  out.lm.kv_heads = a.kv_heads;
  out.lm.head_dim = a.head_dim;
  out.rotary = read_rotary(c, a.head_dim, 1.0);
  refuse_sliding_layers(c, out.lm);
  return out;
}

}  // namespace strata::models
