// Log-probabilities of given tokens under a language-model head, without the logits of all tokens
// ever standing in memory at once.
#pragma once

#include "strata/nn/context.h"

namespace strata::nn {

struct TokenScoreOptions {
  ir::Value temperature = {};  // rank-0 f32, > 0: logits are divided by it; null = 1
  int64_t chunk = 0;     // tokens (of each group) whose logits exist at once; 0 = 256 MiB of them
  bool entropy = false;  // also return the entropy of each distribution (no gradient)
  const Context* context = nullptr;  // lays the logits out over its mesh; null: it is not asked
};

struct TokenScores {
  ir::Value logprobs;  // f32 of the labels' dims: log p(label)
  ir::Value entropy;   // the same, or null
};

// hidden (N, E) after the final norm, head (V, E), labels (N) i32 in [0, V); or groups of them,
// hidden (S, N, E) and labels (S, N), which devices that split the batch share out. Logits are
// products in the operands' type; everything after is float32. Where there is more than one chunk,
// the reverse sweep computes each chunk's logits again.
TokenScores token_scores(ir::Value hidden, ir::Value head, ir::Value labels,
                         const TokenScoreOptions& options);

}  // namespace strata::nn
