#include "strata/nn/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "strata/nn/rotary.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::nn {
namespace {

using ir::Value;

AttentionConfig checked(const AttentionConfig& c, const std::string& path) {
  require(c.kv_heads > 0 && c.heads % c.kv_heads == 0,
          {.id = "nn.kv_heads",
           .where = path,
           .expected = "a number of kv heads that divides the query heads",
           .got = fmt::format("{} query heads, {} kv heads", c.heads, c.kv_heads)});
  return c;
}

LinearDims projection(const AttentionConfig& c, int64_t heads, const char* name) {
  return {c.hidden, heads * c.head_dim, "embed", name};
}

// Scores in float32, scaled, -inf where unseen; `axes` are the scores' dims of the mask's (B, T,
// S).
Value masked(Value s, int64_t head_dim, Value mask, const Dims& axes) {
  s = ops::convert(s, DType::f32) * (1.0 / std::sqrt(static_cast<double>(head_dim)));
  Value seen = ops::broadcast_in_dim(mask, s.dims(), axes);
  return ops::select(seen, s, ops::full_like(s, -std::numeric_limits<double>::infinity()));
}

// q (B, T, Hkv, G, D) against k (B, S, Hkv, D): (B, Hkv, T, G, S).
Value scores(Value q, Value k, Value mask) {
  Value s = ops::dot_general(
      q, k, {.lhs_batch = {0, 2}, .rhs_batch = {0, 2}, .lhs_contract = {4}, .rhs_contract = {3}});
  return masked(s, q.dim(4), mask, {0, 2, 4});
}

// Weights (B, Hkv, T, G, S) times v (B, S, Hkv, D): (B, Hkv, T, G, D).
Value mix(Value weights, Value v) {
  return ops::dot_general(
      ops::convert(weights, v.dtype()), v,
      {.lhs_batch = {0, 1}, .rhs_batch = {0, 2}, .lhs_contract = {4}, .rhs_contract = {1}});
}

// Entries (B, Hkv, T, D) written into a cache (B, Hkv, P, D) from column `start` (B) on.
Value written(Value cache, Value entries, Value start) {
  if (cache.dim(0) == 1) {  // XLA would copy the cache to see whether a lone window fits
    Value zero = ops::scalar(start.function(), DType::i32, 0);
    return ops::dynamic_update_slice(cache, ops::convert(entries, cache.dtype()),
                                     {zero, zero, ops::reshape(start, {}), zero});
  }
  Value row = ops::iota(start.function(), DType::i32, {start.dim(0), 1}, 0);
  Value at = ops::concatenate({row, ops::reshape(start, {start.dim(0), 1})}, 1);
  return ops::scatter(
      cache, at, ops::convert(entries, cache.dtype()),
      {.offset = {1, 2, 3}, .collapsed = {0}, .start_index_map = {0, 2}, .index_vector = 1});
}

}  // namespace

Attention::Attention(Module* parent, std::string name, const AttentionConfig& config)
    : Module(parent, std::move(name)),
      config_(checked(config, path())),
      q_(this, "q_proj", projection(config, config.heads, "heads"), config.qkv_bias),
      k_(this, "k_proj", projection(config, config.kv_heads, "kv_heads"), config.qkv_bias),
      v_(this, "v_proj", projection(config, config.kv_heads, "kv_heads"), config.qkv_bias),
      o_(this, "o_proj", {config.heads * config.head_dim, config.hidden, "heads", "embed"},
         config.out_bias),
      mixed_(this, "attention_mixed") {
  if (!config.qk_norm) return;
  q_norm_.emplace(this, "q_norm", config.head_dim, config.norm_eps, "head_dim");
  k_norm_.emplace(this, "k_norm", config.head_dim, config.norm_eps, "head_dim");
}

AttentionResult Attention::operator()(const Context& context, Value x, const TokenContext& tokens,
                                      const KeyCache& cache) const {
  int64_t rows = x.dim(0), length = x.dim(1);
  auto heads = [&](Value y, int64_t count) {
    return ops::reshape(y, {rows, length, count, config_.head_dim});
  };
  Value q = heads(q_(context, x), config_.heads);
  Value k = heads(k_(context, x), config_.kv_heads);
  Value v = heads(v_(context, x), config_.kv_heads);
  if (q_norm_) {
    q = (*q_norm_)(context, q);
    k = (*k_norm_)(context, k);
  }
  CosSin tables{tokens.cos, tokens.sin};
  q = rotate(q, tables);
  k = rotate(k, tables);
  q = context.lay_out(q, {"batch", "", "heads", ""});
  k = context.lay_out(k, {"batch", "", "kv_heads", ""});
  v = context.lay_out(v, {"batch", "", "kv_heads", ""});
  KeyCache entries;
  if (cache.k || tokens.want_state) {
    entries = {ops::transpose(k, {0, 2, 1, 3}), ops::transpose(v, {0, 2, 1, 3})};
  }
  auto project_out = [&](Value mixed) {
    mixed = context.tap(mixed_, context.lay_out(mixed, {"batch", "", "heads"}));
    return context.lay_out(o_(context, mixed), {"batch", "", ""});
  };
  if (!cache.k) return {project_out(attend(q, k, v, tokens.mask)), entries};
  KeyCache all{written(cache.k, entries.k, tokens.cache_start),
               written(cache.v, entries.v, tokens.cache_start)};
  return {project_out(attend(q, all, tokens.mask)), all};
}

std::string Attention::describe() const {
  return fmt::format("Attention(heads={}, kv_heads={}, head_dim={})", config_.heads,
                     config_.kv_heads, config_.head_dim);
}

Value attend(Value q, Value k, Value v, Value mask) {
  int64_t rows = q.dim(0), length = q.dim(1), heads = q.dim(2), size = q.dim(3);
  int64_t kv_heads = k.dim(2);
  Value grouped = ops::reshape(q, {rows, length, kv_heads, heads / kv_heads, size});
  Value out = mix(ops::softmax(scores(grouped, k, mask), -1), v);
  return ops::reshape(ops::transpose(out, {0, 2, 1, 3, 4}), {rows, length, heads * size});
}

Value attend(Value q, const KeyCache& cache, Value mask) {
  int64_t rows = q.dim(0), length = q.dim(1), heads = q.dim(2), size = q.dim(3);
  int64_t kv_heads = cache.k.dim(1), group = heads / kv_heads, columns = cache.k.dim(2);
  Value grouped = ops::reshape(q, {rows, length, kv_heads, group, size});
  grouped = ops::reshape(ops::transpose(grouped, {0, 2, 1, 3, 4}),
                         {rows, kv_heads, length * group, size});
  Value s = ops::dot_general(
      ops::convert(grouped, cache.k.dtype()), cache.k,
      {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contract = {3}, .rhs_contract = {3}});
  s = ops::reshape(s, {rows, kv_heads, length, group, columns});
  s = masked(s, size, mask, {0, 2, 4});
  // Every token sees its own column, so the maximum is finite and the sum at least 1.
  Value grown = ops::exponential(s - ops::reduce_max(s, {-1}, true));
  Value weights = grown / ops::reduce_sum(grown, {-1}, true);
  weights = ops::reshape(weights, {rows, kv_heads, length * group, columns});
  Value out = ops::dot_general(
      ops::convert(weights, cache.v.dtype()), cache.v,
      {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contract = {3}, .rhs_contract = {2}});
  out = ops::reshape(ops::convert(out, q.dtype()), {rows, kv_heads, length, group, size});
  return ops::reshape(ops::transpose(out, {0, 2, 1, 3, 4}), {rows, length, heads * size});
}

}  // namespace strata::nn
