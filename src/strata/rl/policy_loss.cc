#include "strata/rl/policy_loss.h"

#include <cmath>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::rl {
namespace {

using ir::Value;
using ir::Values;

Value where(Value active, Value x) { return ops::select(active, x, ops::full_like(x, 0)); }

Value sum(Value x) { return ops::reduce_sum(x, {0}); }

// Mean of x over the active tokens of each token's own sequence, one value a token: a product with
// the (N, N) table of which tokens share a sequence.
Value sequence_mean(Value x, Value active, Value sequence) {
  int64_t n = x.dim(0);
  Value row = ops::broadcast_in_dim(sequence, {n, n}, {0});
  Value column = ops::broadcast_in_dim(sequence, {n, n}, {1});
  Value both =
      ops::and_(ops::compare(row, column, "EQ"), ops::broadcast_in_dim(active, {n, n}, {1}));
  Value same = ops::convert(both, DType::f32);
  Value total = ops::dot_general(same, x, {.lhs_contract = {1}, .rhs_contract = {0}});
  Value count = ops::reduce_sum(same, {1});
  return total / ops::maximum(count, ops::full_like(count, 1));
}

struct ClipValues {
  Value loss, low, high;  // the last two: 1 where the bound is active
};

ClipValues clipped(Value ratio, Value advantage, const ClipOptions& o) {
  Value low = ops::full_like(ratio, 1 - o.low), high = ops::full_like(ratio, 1 + o.high);
  Value zero = ops::full_like(ratio, 0);
  Value loss = -ops::minimum(ratio * advantage, ops::clamp(low, ratio, high) * advantage);
  Value negative = ops::compare(advantage, zero, "LT");
  Value positive = ops::compare(advantage, zero, "GT");
  if (o.dual) {
    Value bound = ops::minimum(loss, advantage * -*o.dual);
    loss = ops::select(negative, bound, loss);
  }
  Value is_low = ops::and_(negative, ops::compare(ratio, low, "LT"));
  Value is_high = ops::and_(positive, ops::compare(ratio, high, "GT"));
  return {loss, ops::convert(is_low, DType::f32), ops::convert(is_high, DType::f32)};
}

void check_options(const PolicyLossOptions& o) {
  check(o.clip);
  require(std::isfinite(o.beta) && o.beta >= 0, {.id = "rl.beta",
                                                 .where = "policy loss",
                                                 .expected = "a finite beta >= 0",
                                                 .got = std::to_string(o.beta)});
  require(!o.importance_cap || *o.importance_cap > 0,
          {.id = "rl.importance_cap",
           .where = "policy loss",
           .expected = "a cap above 0",
           .got = std::to_string(o.importance_cap.value_or(0))});
}

}  // namespace

KlEstimator parse_kl_estimator(const std::string& name) {
  if (name == "k1") return KlEstimator::k1;
  if (name == "k2") return KlEstimator::k2;
  if (name == "k3") return KlEstimator::k3;
  fail({.id = "rl.kl_estimator",
        .where = "kl_estimator",
        .expected = "k1, k2 or k3",
        .got = "'" + name + "'"});
}

RatioLevel parse_ratio_level(const std::string& name) {
  if (name == "token") return RatioLevel::token;
  if (name == "sequence") return RatioLevel::sequence;
  fail({.id = "rl.ratio_level",
        .where = "ratio",
        .expected = "token or sequence",
        .got = "'" + name + "'"});
}

std::vector<std::string> policy_metric_names() {
  return {"tokens",   "kl",          "entropy",   "clip_low",    "clip_high",
          "mismatch", "mismatch_kl", "ratio_max", "mismatch_max"};
}

Value kl_estimate(Value logprob, Value reference, KlEstimator estimator) {
  Value r = reference - logprob;
  if (estimator == KlEstimator::k1) return -r;
  if (estimator == KlEstimator::k2) return r * r * 0.5;
  // Near 0 the difference cancels: its Taylor series keeps all digits there (the next term is
  // r⁶/720, below float32's precision for |r| < 0.05).
  Value series = r * r * (r * (r * (r * (1.0 / 120) + 1.0 / 24) + 1.0 / 6) + 0.5);
  Value small = ops::compare(ops::abs(r), ops::full_like(r, 0.05), "LT");
  return ops::select(small, series, ops::exponential_minus_one(r) - r);
}

PolicyLoss policy_loss(const PolicyTerms& t, const PolicyLossOptions& o) {
  check_options(o);
  Value active = ops::compare(t.weight, ops::full_like(t.weight, 0), "NE");
  Value logp = where(active, t.logprob);
  Value now = ops::stop_gradient(logp);
  Value old = o.read_old ? where(active, t.old_logprob) : now;
  Value log_ratio = logp - old;
  if (o.ratio == RatioLevel::sequence) {
    log_ratio = where(active, sequence_mean(log_ratio, active, t.sequence));
  }
  Value ratio = ops::exponential(log_ratio);
  ClipValues clip = clipped(ratio, where(active, t.advantage), o.clip);
  Value term = clip.loss;
  Value sampler = where(active, t.sampler_logprob);
  if (o.importance_cap) {
    Value weight = ops::exponential(old - sampler);
    weight = ops::minimum(weight, ops::full_like(weight, *o.importance_cap));
    term = ops::stop_gradient(weight) * term;
  }
  Value kl = ops::full_like(logp, 0);
  if (o.beta > 0) {
    kl = kl_estimate(logp, where(active, t.reference_logprob), o.kl);
    term = term + kl * o.beta;
  }
  Value ones = ops::convert(active, DType::f32);
  Value gap = (o.read_old ? old : now) - sampler;
  Value kept = where(active, ratio);
  Values metrics{sum(ones),
                 sum(kl),
                 sum(where(active, t.entropy)),
                 sum(clip.low * ones),
                 sum(clip.high * ones),
                 sum(ops::abs(gap)),
                 sum(ops::exponential_minus_one(gap) - gap),
                 ops::reduce_max(kept, {0}),
                 ops::reduce_max(ops::abs(gap), {0})};
  for (Value& m : metrics) m = ops::reshape(ops::stop_gradient(m), {1});
  return {sum(where(active, t.weight * term)), ops::concatenate(metrics, 0)};
}

}  // namespace strata::rl
