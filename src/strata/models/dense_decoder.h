// The pre-norm decoder that the dense families share: llama and qwen3 differ only in how their
// config.json fills this record.
#pragma once

#include <memory>

#include "strata/models/causal_lm.h"
#include "strata/nn/attention.h"
#include "strata/nn/layer_stack.h"
#include "strata/nn/linear.h"
#include "strata/nn/mlp.h"
#include "strata/nn/norm.h"
#include "strata/nn/rotary.h"

namespace strata::models {

struct DenseDecoderConfig {
  LmConfig lm;
  nn::AttentionConfig attention;
  int64_t intermediate = 0;
  bool mlp_bias = false;
  double norm_eps = 1e-6;
  nn::RotaryTable rotary;
};

// h += attention(norm(h)); h += mlp(norm(h)).
class DenseDecoderLayer : public nn::Layer {
 public:
  DenseDecoderLayer(nn::Module* parent, std::string name, const DenseDecoderConfig& config);
  nn::LayerResult forward(const nn::Context& context, const ir::Values& carry,
                          const ir::Values& inputs, const nn::TokenContext& tokens) const override;
  std::string describe() const override;

 private:
  nn::RmsNorm input_norm_;
  nn::Attention attention_;
  nn::RmsNorm post_norm_;
  nn::GatedMlp mlp_;
};

class DenseDecoder : public CausalLm {
 public:
  explicit DenseDecoder(const DenseDecoderConfig& config);
  LmOutput forward(const nn::Context& context, const LmInput& input) const override;
  std::vector<StateTypes> state_types(int64_t rows, int64_t length, DType compute) const override;
  ir::Value head(const nn::Context& context) const override;
  std::vector<sharding::Tie> ties() const override;
  std::vector<std::string> ignorable() const override;
  std::string describe() const override;

 private:
  // The part of the tree that checkpoints call "model".
  struct Body : nn::Module {
    Body(nn::Module* parent, const DenseDecoderConfig& config);
    std::string describe() const override { return "Decoder"; }
    nn::Embedding embed;
    nn::LayerStack layers;
    nn::RmsNorm norm;
  };

  nn::RotaryTable rotary_;
  Body body_;
  std::unique_ptr<nn::Linear> head_;  // null when tied
};

}  // namespace strata::models
