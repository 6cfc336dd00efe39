#include "strata/nn/token_loss.h"

#include <algorithm>
#include <numeric>

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

// 0, 1, … rank - 1.
Dims all_dims(int64_t rank) {
  Dims dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// One chunk: hidden (…, C, E), labels (…, C) → log-probabilities and, if asked, entropies.
Values chunk_scores(Value hidden, Value head, Value labels, const TokenScoreOptions& o) {
  Value logits = ops::convert(ops::linear(hidden, head), DType::f32);
  if (o.context != nullptr) {
    bool groups = logits.rank() == 3;
    logits = groups ? o.context->lay_out(logits, {"batch", "", "vocab"})
                    : o.context->lay_out(logits, {"", "vocab"});
  }
  if (o.temperature) logits = logits / o.temperature;
  Value total = ops::log_sum_exp(logits, -1);
  int64_t words = labels.rank();
  Value id = ops::iota(hidden.function(), DType::i32, logits.dims(), words);
  Value label = ops::broadcast_in_dim(labels, logits.dims(), all_dims(words));
  Value is_label = ops::compare(id, label, "EQ");
  Value picked = ops::reduce_sum(ops::select(is_label, logits, ops::full_like(logits, 0)), {words});
  Value flat_total = ops::reshape(total, labels.dims());
  Values out{picked - flat_total};
  if (o.entropy) {
    // H = log Σ exp(z) − Σ p z, detached: it is a metric.
    Value fixed = ops::stop_gradient(logits), log_z = ops::stop_gradient(total);
    Value mean = ops::reduce_sum(ops::exponential(fixed - log_z) * fixed, {words});
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

// Dim `at` cut into `steps` equal parts: that many, then the size of one.
Dims in_chunks(Dims dims, int64_t at, int64_t steps) {
  auto place = dims.begin() + static_cast<ptrdiff_t>(at);
  *place /= steps;
  dims.insert(place, steps);
  return dims;
}

// `x` with `count` zeros after the others along dim `at`.
Value padded_at(Value x, int64_t at, int64_t count) {
  Dims low(x.dims().size(), 0), high(x.dims().size(), 0);
  high[static_cast<size_t>(at)] = count;
  return ops::pad(x, ops::scalar(x.function(), x.dtype(), 0), low, high);
}

}  // namespace

TokenScores token_scores(Value hidden, Value head, Value labels, const TokenScoreOptions& o) {
  ir::Function& f = hidden.function();
  const int64_t at = labels.rank() - 1;  // the dim that counts tokens
  int64_t count = hidden.dim(at);
  int64_t steps = divide_up(count, chunk_of(o, head.dim(0)));
  int64_t chunk = divide_up(count, steps), padded = steps * chunk;
  if (padded != count) {
    hidden = padded_at(hidden, at, padded - count);
    labels = padded_at(labels, at, padded - count);
  }
  Values out;
  if (steps == 1) {
    out = chunk_scores(hidden, head, labels, o);
  } else {
    Values xs{ops::reshape(hidden, in_chunks(hidden.dims(), at, steps)),
              ops::reshape(labels, in_chunks(labels.dims(), at, steps))};
    ops::ScanOptions options;
    options.length = steps;
    options.x_axes = {at, at};
    options.remat = {ops::Remat::Policy::full, {}};
    options.y_axes = Dims(o.entropy ? 2 : 1, at);
    out = ops::scan(f, {}, xs, options, [&](Value, const Values&, const Values& v) {
            return ops::Step{{}, chunk_scores(v[0], head, v[1], o)};
          }).ys;
  }
  for (Value& v : out) v = ops::slice_axis(ops::reshape(v, labels.dims()), at, 0, count);
  return {out[0], o.entropy ? out[1] : Value{}};
}

}  // namespace strata::nn
