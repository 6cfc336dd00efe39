#include "strata/nn/token_loss.h"

#include <algorithm>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;

// One chunk: hidden (C, E), labels (C) → log-probabilities and, if asked, entropies.
Values chunk_scores(Value hidden, Value head, Value labels, const TokenScoreOptions& o) {
  Value logits = ops::convert(ops::linear(hidden, head), DType::f32);
  if (o.temperature) logits = logits / o.temperature;
  Value total = ops::log_sum_exp(logits, -1);
  Value id = ops::iota(hidden.function(), DType::i32, logits.dims(), 1);
  Value is_label = ops::compare(id, ops::broadcast_in_dim(labels, logits.dims(), {0}), "EQ");
  Value picked = ops::reduce_sum(ops::select(is_label, logits, ops::full_like(logits, 0)), {1});
  Value flat_total = ops::reshape(total, {logits.dim(0)});
  Values out{picked - flat_total};
  if (o.entropy) {
    // H = log Σ exp(z) − Σ p z, detached: it is a metric.
    Value fixed = ops::stop_gradient(logits), log_z = ops::stop_gradient(total);
    Value mean = ops::reduce_sum(ops::exponential(fixed - log_z) * fixed, {1});
    out.push_back(ops::stop_gradient(flat_total) - mean);
  }
  return out;
}

int64_t chunk_of(const TokenScoreOptions& o, int64_t vocabulary) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  if (o.chunk > 0) return o.chunk;
  return std::max<int64_t>(1, kBytes / (4 * vocabulary));
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

TokenScores token_scores(Value hidden, Value head, Value labels, const TokenScoreOptions& o) {
  ir::Function& f = hidden.function();
  int64_t count = hidden.dim(0);
  int64_t steps = divide_up(count, chunk_of(o, head.dim(0)));
  int64_t chunk = divide_up(count, steps), padded = steps * chunk;
  if (padded != count) {
    hidden = ops::pad(hidden, ops::scalar(f, hidden.dtype(), 0), {0, 0}, {padded - count, 0});
    labels = ops::pad(labels, ops::scalar(f, labels.dtype(), 0), {0}, {padded - count});
  }
  Values out;
  if (steps == 1) {
    out = chunk_scores(hidden, head, labels, o);
  } else {
    Values xs{ops::reshape(hidden, {steps, chunk, hidden.dim(1)}),
              ops::reshape(labels, {steps, chunk})};
    ops::ScanOptions options;
    options.length = steps;
    options.remat = {ops::Remat::Policy::full, {}};
    out = ops::scan(f, {}, xs, options, [&](Value, const Values&, const Values& v) {
            return ops::Step{{}, chunk_scores(v[0], head, v[1], o)};
          }).ys;
  }
  for (Value& v : out) v = ops::slice_axis(ops::reshape(v, {padded}), 0, 0, count);
  return {out[0], o.entropy ? out[1] : Value{}};
}

}  // namespace strata::nn
