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

// Keys (rotated) and values by row and head, (B, Hkv, P, D): the order in which decoding multiplies
// without moving anything. Null values without a cache.
struct KeyCache {
  ir::Value k, v;
};

struct AttentionResult {
  ir::Value out;   // (B, T, hidden)
  KeyCache cache;  // the given cache with the new tokens' entries; without one those alone (P = T)
};

// softmax(q kᵀ / √D) v: scores and softmax in float32, a token that sees nothing gives zeros.
class Attention : public Module {
 public:
  // Throws invalid_argument when kv_heads does not divide heads.
  Attention(Module* parent, std::string name, const AttentionConfig& config);
  AttentionResult operator()(const Context& context, ir::Value x, const TokenContext& tokens,
                             const KeyCache& cache = {}) const;
  std::string describe() const override;

 private:
  AttentionConfig config_;
  Linear q_, k_, v_, o_;
  std::optional<RmsNorm> q_norm_, k_norm_;
  Tap mixed_;  // what goes into o_proj
};

// Attention proper: q (B, T, Hq, D), k and v (B, T, Hkv, D), mask (B, T, T) → (B, T, Hq · D).
ir::Value attend(ir::Value q, ir::Value k, ir::Value v, ir::Value mask);

// The same against a cache, with mask (B, T, P).
ir::Value attend(ir::Value q, const KeyCache& cache, ir::Value mask);

}  // namespace strata::nn
