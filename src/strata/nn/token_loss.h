// Log-probabilities of given tokens under a language-model head, without the logits of all tokens
// ever standing in memory at once.
#pragma once

#include "strata/ir/ir.h"

namespace strata::nn {

struct TokenScoreOptions {
  ir::Value temperature = {};  // rank-0 f32, > 0: logits are divided by it; null = 1
  int64_t chunk = 0;           // tokens whose logits exist at once; 0 = what fits in 256 MiB
  bool entropy = false;        // also return the entropy of each distribution (no gradient)
};

struct TokenScores {
  ir::Value logprobs;  // (N) f32: log p(label)
  ir::Value entropy;   // (N) f32, or null
};

// hidden (N, E) after the final norm, head (V, E), labels (N) i32 in [0, V). Logits are products in
// the operands' type; everything after is float32. Where there is more than one chunk, the reverse
// sweep computes each chunk's logits again.
TokenScores token_scores(ir::Value hidden, ir::Value head, ir::Value labels,
                         const TokenScoreOptions& options);

}  // namespace strata::nn
