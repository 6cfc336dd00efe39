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
  nn::PastKeys past;
  if (!inputs.empty()) past = {inputs[0], inputs[1]};
  nn::AttentionResult a = attention_(context, input_norm_(context, h), tokens, past);
  h = h + a.out;
  h = h + mlp_(context, post_norm_(context, h));
  if (!tokens.want_state) return {{h}, {}};
  return {{h}, {a.k, a.v}};
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
  nn::TokenContext tokens{
      tables.cos, tables.sin, nn::segment_mask(in.segments, in.parents), {}, in.want_cache};
  Values past;
  if (in.past_k) {
    past = {in.past_k, in.past_v};
    Dims dims{in.ids.dim(0), in.ids.dim(1), in.past_valid.dim(1)};
    tokens.past_mask = ops::broadcast_in_dim(in.past_valid, dims, {0, 2});
  }
  Value h = body_.embed(context, in.ids);
  nn::LayerResult layers = body_.layers.run(context, {h}, past, tokens);
  LmOutput out{body_.norm(context, layers.carry[0]), {}, {}};
  if (in.want_cache && layers.outputs.size() == 2) {
    out.k = layers.outputs[0];
    out.v = layers.outputs[1];
  }
  return out;
}

Value DenseDecoder::head(const nn::Context& context) const {
  return context(head_ ? head_->weight() : body_.embed.weight());
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
