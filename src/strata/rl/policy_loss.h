// The traced policy loss of GRPO and its relatives over the scored tokens of a batch:
//   w · (tis · clip term + beta · KL) summed over tokens, w the aggregation's weight
// with the clip term of clip.h (its reference in double), ratios per token (GRPO) or per sequence
// (GSPO, arXiv 2507.18071), truncated importance weights for the sampler's mismatch, and a KL
// estimate to a reference policy. Masked places are selected away before any exponential.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/rl/clip.h"

namespace strata::rl {

enum class KlEstimator { k1, k2, k3 };
enum class RatioLevel { token, sequence };

// "k1", "k2", "k3"; "token", "sequence". Throw invalid_argument (rl.kl_estimator, rl.ratio_level).
KlEstimator parse_kl_estimator(const std::string& name);
RatioLevel parse_ratio_level(const std::string& name);

struct PolicyLossOptions {
  ClipOptions clip;
  RatioLevel ratio = RatioLevel::token;
  // Weight of the KL term; 0 leaves reference log-probs unread and reports no KL.
  double beta = 0;
  KlEstimator kl = KlEstimator::k3;
  // Upper bound C of min(exp(old - sampler), C); empty = no such weight.
  std::optional<double> importance_cap = {};
  // Whether old log-probs are read from the batch. Otherwise the step is on-policy and they are the
  // new ones, detached: every ratio is exactly 1.
  bool read_old = false;
};

// One value a scored token, f32, except `sequence` (i32).
struct PolicyTerms {
  ir::Value logprob;  // what is differentiated
  ir::Value entropy;  // detached
  ir::Value weight, advantage, old_logprob, sampler_logprob, reference_logprob;
  ir::Value sequence;
};

struct PolicyLoss {
  ir::Value loss;     // rank-0 f32: the sum
  ir::Value metrics;  // f32, in the order of policy_metric_names()
};

// Sums over trained tokens but for the maxima; `tokens` is their number.
//   tokens, kl, entropy, clip_low, clip_high, mismatch (|old - sampler|), mismatch_kl,
//   then ratio_max, mismatch_max
std::vector<std::string> policy_metric_names();
// How many of them, at the end, are maxima.
inline constexpr int kMaximaMetrics = 2;

// Throws as check(ClipOptions); invalid_argument (rl.importance_cap, rl.beta) out of range.
PolicyLoss policy_loss(const PolicyTerms& terms, const PolicyLossOptions& options);

// KL estimate per token from logp and reference log-prob (r = reference - logp):
// k1 = -r, k2 = r²/2, k3 = expm1(r) - r (without cancellation near 0). Source: J. Schulman,
// "Approximating KL divergence".
ir::Value kl_estimate(ir::Value logprob, ir::Value reference, KlEstimator estimator);

}  // namespace strata::rl
