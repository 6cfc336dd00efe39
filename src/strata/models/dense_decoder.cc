#include "strata/models/dense_decoder.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/shape.h"

namespace strata::models {

using ir::Value;
using ir::Values;

DenseDecoderLayer::DenseDecoderLayer(nn::Module* parent, std::string name,
                                     const DenseDecoderConfig& c)
    : Layer(parent, std::move(name)),
      input_norm_(this, "input_layernorm", c.lm.hidden, c.norm_eps, "embed"),
      attention_(this, "self_attn", c.attention),
      post_norm_(this, "post_attention_layernorm", c.lm.hidden, c.norm_eps, "embed"),
      mlp_(this, "mlp", c.lm.hidden, c.intermediate, c.mlp_bias) {}

nn::LayerResult DenseDecoderLayer::forward(const nn::Context& context, const Values& carry,
                                           const Values& inputs,
                                           const nn::TokenContext& tokens) const {
  Value h = carry[0];
  nn::KeyCache cache;
  if (!inputs.empty()) cache = {inputs[0], inputs[1]};
  nn::AttentionResult a = attention_(context, input_norm_(context, h), tokens, cache);
  h = h + a.out;
  h = h + mlp_(context, post_norm_(context, h));
  if (!tokens.want_state) return {{h}, {}};
  return {{h}, {a.cache.k, a.cache.v}};
}

std::string DenseDecoderLayer::describe() const { return "DenseDecoderLayer"; }

DenseDecoder::Body::Body(nn::Module* parent, const DenseDecoderConfig& c)
    : Module(parent, "model"),
      embed(this, "embed_tokens", c.lm.vocabulary, c.lm.hidden),
      layers(this, "layers"),
      norm(this, "norm", c.lm.hidden, c.norm_eps, "embed") {
  for (int64_t i = 0; i < c.lm.layers; ++i) layers.emplace<DenseDecoderLayer>(c);
}

DenseDecoder::DenseDecoder(const DenseDecoderConfig& c)
    : CausalLm(c.lm), rotary_(c.rotary), body_(this, c) {
  if (c.lm.tied) return;
  head_ = std::make_unique<nn::Linear>(
      this, "lm_head", nn::LinearDims{c.lm.hidden, c.lm.vocabulary, "embed", "vocab"}, false);
}

LmOutput DenseDecoder::forward(const nn::Context& context, const LmInput& in) const {
  nn::CosSin tables = nn::rotary_tables(in.positions, rotary_);
  nn::TokenContext tokens{tables.cos, tables.sin, {}, {}, in.want_state};
  bool cached = !in.state.empty();
  if (cached) {
    tokens.cache_start = in.state_length;
    tokens.mask = nn::cache_mask(in.state_length, in.ids.dim(1), in.state[0][0].dim(2));
  } else {
    tokens.mask = nn::segment_mask(in.segments, in.parents);
  }
  Value h = body_.embed(context, in.ids);
  if (!cached && !in.want_state) {
    h = body_.layers.run(context, {h}, {}, tokens).carry[0];
    return {body_.norm(context, h), {}};
  }
  nn::EachResult layers = body_.layers.run_each(context, {h}, in.state, tokens);
  return {body_.norm(context, layers.carry[0]), layers.outputs};
}

std::vector<StateTypes> DenseDecoder::state_types(int64_t rows, int64_t length,
                                                  DType compute) const {
  sharding::ParamType entries =
      sharding::plain_type(compute, {rows, config().kv_heads, length, config().head_dim});
  entries.dims[1].name = "kv_heads";
  return std::vector<StateTypes>(body_.layers.size(), {entries, entries});
}

Value DenseDecoder::head(const nn::Context& context) const {
  return head_ ? head_->kernel(context) : context(body_.embed.weight());
}

std::vector<sharding::Tie> DenseDecoder::ties() const {
  if (head_) return {};
  return {{"lm_head.weight", body_.embed.weight().path()}};
}

std::vector<std::string> DenseDecoder::ignorable() const {
  // Old exports store the rotary table, which is a function of the configuration.
  std::vector<std::string> names{"*.rotary_emb.inv_freq"};
  if (!head_) names.push_back("lm_head.weight");
  return names;
}

std::string DenseDecoder::describe() const { return "DenseDecoder"; }

}  // namespace strata::models
