// The clipped policy term of PPO and GRPO for one token, in double: its settings, and the reference
// that the traced loss is tested against.
#pragma once

#include <optional>

namespace strata::rl {

// ratio = exp(logp - logp_old) is held within [1 - low, 1 + high]. `low` and `high` may differ
// (clip-higher, DAPO). `dual`, when given, bounds the loss of tokens with a negative advantage by
// -dual * A (arXiv 1912.09729).
struct ClipOptions {
  double low = 0.2;
  double high = 0.2;
  std::optional<double> dual = {};
};

// Throws invalid_argument (rl.clip_range) unless 0 <= low < 1 and high >= 0 are finite, and
// (rl.clip_dual) unless dual > 1 + high.
void check(const ClipOptions& options);

struct ClipTerm {
  // -min(ratio A, clip(ratio) A), and its dual bound.
  double loss = 0;
  // Its derivative by logp.
  double gradient = 0;
  // The clipped branch is the active one and differs: A < 0 and ratio < 1 - low, or A > 0 and
  // ratio > 1 + high. What clip fractions count.
  bool clipped_low = false;
  bool clipped_high = false;
  // The dual bound holds.
  bool clipped_dual = false;
};

// Throws as check.
ClipTerm clip_term(double advantage, double ratio, const ClipOptions& options);

}  // namespace strata::rl
