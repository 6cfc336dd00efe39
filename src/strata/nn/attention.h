// Softmax attention with grouped key / value heads.
#pragma once

#include <optional>
#include <string>

#include "strata/nn/context.h"
#include "strata/nn/linear.h"
#include "strata/nn/module.h"
#include "strata/nn/norm.h"
#include "strata/nn/token_context.h"

namespace strata::nn {

struct AttentionConfig {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;
  bool qkv_bias = false;
  bool out_bias = false;
  bool qk_norm = false;  // per-head RMS norm of q and k before the rotation
  double norm_eps = 1e-6;
};

struct AttentionResult {
  ir::Value out;   // (B, T, hidden)
  ir::Value k, v;  // (B, T, Hkv, D): the new tokens' cache entries, keys rotated
};

// Cached keys and values of earlier tokens, (B, P, Hkv, D); null values without a cache.
struct PastKeys {
  ir::Value k, v;
};

// softmax(q kᵀ / √D) v: scores and softmax in float32, a token that sees nothing gives zeros.
class Attention : public Module {
 public:
  // Throws invalid_argument when kv_heads does not divide heads.
  Attention(Module* parent, std::string name, const AttentionConfig& config);
  AttentionResult operator()(const Context& context, ir::Value x, const TokenContext& tokens,
                             const PastKeys& past = {}) const;
  std::string describe() const override;

 private:
  AttentionConfig config_;
  Linear q_, k_, v_, o_;
  std::optional<RmsNorm> q_norm_, k_norm_;
};

// Attention proper: q (B, T, Hq, D), k and v (B, T, Hkv, D) → (B, T, Hq · D).
ir::Value attend(ir::Value q, ir::Value k, ir::Value v, const TokenContext& tokens,
                 const PastKeys& past);

}  // namespace strata::nn
