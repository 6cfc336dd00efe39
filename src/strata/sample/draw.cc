#include "strata/sample/draw.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <string_view>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/cumulative.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/random.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/ops/sort.h"

namespace strata::sample {
namespace {

using ir::Value;
using ir::Values;

// Tokens whose probabilities are summed first: the draw looks for the chunk, then inside it.
constexpr int64_t kChunk = 256;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value word(Value rows, int64_t index) { return ops::select_index(rows, 1, index); }
Value setting(Value rows, int64_t index) {
  return ops::bitcast_convert(word(rows, index), DType::f32);
}
Value compare(Value x, double y, std::string_view direction) {
  return ops::compare(x, ops::full_like(x, y), direction);
}
// (B) as (B, 1), which broadcasts along a row.
Value column(Value x) { return ops::reshape(x, {x.dim(0), 1}); }
Value like(Value x, Value shape) { return ops::broadcast_to(x, shape.dims()); }
Value select(Value pred, Value x, double y) { return ops::select(pred, x, ops::full_like(x, y)); }

// One number in [0, 1) a row. The words are chained through threefry under fixed keys, so that
// each of them changes everything.
Value uniform(Value rows) {
  ir::Function& f = rows.function();
  Value x = ops::full_like(word(rows, kSeedLow), 0), y = x;
  uint64_t stage = 0;
  auto mix = [&](Value first, Value second) {
    ir::Node& node = f.add(ops::kThreefry2x32, {ops::key(f, 0x53747261'74610000ULL + stage++),
                                                ops::xor_(x, first), ops::xor_(y, second)});
    x = node.result(0);
    y = node.result(1);
  };
  mix(word(rows, kSeedLow), word(rows, kSeedHigh));
  mix(word(rows, kRequestLow), word(rows, kRequestHigh));
  mix(word(rows, kSample), word(rows, kPosition));
  Value bits = ops::shift_right_logical(x, ops::full_like(x, 8));
  return ops::convert(bits, DType::f32) * 0x1p-24;
}

// The logits after penalties and bans.
Value edited(Value logits, Value rows, Value edits) {
  Value id = ops::select_index(edits, 2, 0), code = ops::select_index(edits, 2, 1);
  auto bit = [&](int32_t mask) {
    return compare(ops::and_(code, ops::full_like(code, mask)), 0, "NE");
  };
  auto of_row = [&](int64_t index) { return like(column(setting(rows, index)), id); };
  Value value = ops::take_along_axis(logits, id, 1);
  Value repetition = of_row(kRepetition);
  Value repeated = ops::select(compare(value, 0, "GT"), value / repetition, value * repetition);
  value = ops::select(bit(kEditSeen), repeated, value);
  Value count = ops::convert(ops::shift_right_logical(code, ops::full_like(code, 2)), DType::f32);
  Value present = select(compare(count, 0, "GT"), ops::full_like(count, 1), 0);
  value = value - of_row(kFrequency) * count - of_row(kPresence) * present;
  value = select(ops::not_(bit(kEditBanned)), value, -kInfinity);
  Value row = ops::iota(id.function(), DType::i32, {id.dim(0), id.dim(1), 1}, 0);
  Value at = ops::concatenate({row, ops::reshape(id, {id.dim(0), id.dim(1), 1})}, 2);
  return ops::scatter(
      logits, at, value,
      {.offset = {}, .collapsed = {0, 1}, .start_index_map = {0, 1}, .index_vector = 2});
}

// A row's logits around their maximum, divided by the temperature, and e to them.
struct Scaled {
  Value logits;    // (B, V)
  Value greatest;  // (B, 1) of them
  Value temperature;
  Value weight;  // (B, V) e^((logits - greatest) / temperature), at most 1
};

Scaled scaled(Value logits, Value temperature) {
  Scaled s;
  s.logits = logits;
  s.greatest = ops::reduce_max(logits, {1}, true);
  s.temperature = temperature;
  s.weight = ops::exponential((logits - s.greatest) / column(temperature));
  return s;
}

// The place in a row of weights (B, N) where the running sum first exceeds u times the whole: a
// place whose weight is not zero. `running` is the inclusive running sum.
Value first_beyond(Value running, Value target) {
  Value before = ops::compare(running, like(column(target), running), "LE");
  Value count = ops::reduce_sum(ops::convert(before, DType::i32), {1});
  return ops::minimum(count, ops::full_like(count, static_cast<double>(running.dim(1) - 1)));
}

// Running sums (B, N) exclusive of their own place, with the same rounding.
Value one_later(Value running) {
  Value zero = ops::scalar(running.function(), running.dtype(), 0);
  return ops::pad(running, zero, {0, 1}, {0, -1});
}

Value last_of(Value x) { return ops::select_index(x, 1, x.dim(1) - 1); }

// One row's value at `index` (B).
Value at_index(Value x, Value index) {
  return ops::reshape(ops::take_along_axis(x, column(index), 1), {x.dim(0)});
}

struct Drawn {
  Value token;    // (B) i32
  Value logprob;  // (B) f32, under the distribution that was drawn from
};

// The weights of every token, in chunks, with their running sums.
struct Mass {
  Value chunks;   // (B, N, C)
  Value running;  // (B, N) inclusive, over chunks
  Value total;    // (B)
};

Mass mass_of(Value weight) {
  int64_t rows = weight.dim(0), size = weight.dim(1);
  int64_t count = (size + kChunk - 1) / kChunk;
  Value zero = ops::scalar(weight.function(), DType::f32, 0);
  Value padded = ops::pad(weight, zero, {0, 0}, {0, count * kChunk - size});
  Mass m;
  m.chunks = ops::reshape(padded, {rows, count, kChunk});
  m.running = ops::cumulative_sum(ops::reduce_sum(m.chunks, {2}), 1);
  m.total = last_of(m.running);
  return m;
}

Value draw_unfiltered(const Mass& mass, Value u) {
  int64_t rows = mass.chunks.dim(0);
  ir::Function& f = u.function();
  Value target = u * mass.total;
  Value chunk = first_beyond(mass.running, target);
  Value rest = target - at_index(one_later(mass.running), chunk);
  Value row = ops::iota(f, DType::i32, {rows, 1}, 0);
  Value inside = ops::gather(
      mass.chunks, ops::concatenate({row, column(chunk)}, 1),
      {.offset = {1}, .collapsed = {0, 1}, .start_index_map = {0, 1}, .index_vector = 1},
      {1, 1, kChunk});
  Value running = ops::cumulative_sum(inside, 1);
  // Rounding may leave `rest` at the chunk's whole mass: then its last token that has any.
  Value place = ops::iota(f, DType::i32, inside.dims(), 1);
  Value last = ops::reduce_max(select(compare(inside, 0, "GT"), place, 0), {1});
  Value found = ops::minimum(first_beyond(running, rest), last);
  return ops::add(ops::multiply(chunk, ops::full_like(chunk, kChunk)), found);
}

// log-probability of `token` (B), given the sum of all weights.
Value logprob_of(const Scaled& s, Value token, Value total) {
  Value above = at_index(s.logits, token) - ops::reshape(s.greatest, token.dims());
  return above / s.temperature - ops::log(total);
}

Value greedy_token(Value logits, Value greatest) {
  Value id = ops::iota(logits.function(), DType::i32, logits.dims(), 1);
  double size = static_cast<double>(logits.dim(1));
  Value best = ops::compare(logits, like(greatest, logits), "EQ");
  Value token = ops::reduce_min(select(best, id, size), {1});
  return ops::minimum(token, ops::full_like(token, size - 1));
}

// What the filters of every row need besides the prefix.
struct FilterInput {
  Value logits;  // (B, V) after the penalties
  Value greatest, temperature, total, u, top_k, top_p, min_p;
};

// Tokens by falling logits: ids (B, K) and weights (B, K).
struct Ranked {
  Value id, weight;
};

Ranked ranked(const FilterInput& in, int64_t count) {
  ops::TopK top = ops::top_k(in.logits, std::min(count, in.logits.dim(1)));
  Value z = (top.values - in.greatest) / column(in.temperature);
  return {top.indices, ops::exponential(z)};
}

struct Filtered {
  Drawn drawn;
  Value exact;  // (B): the filters' set lies inside the prefix
};

// Where the filters end: the weights that top-k leaves, their running sums, and the sum below which
// the nucleus' tokens begin.
struct Nucleus {
  Value weight, running;  // (B, K)
  Value bound;            // (B); infinite when top-p is off
  Value limited;          // (B): top-k is on
};

Nucleus nucleus_of(const FilterInput& in, const Ranked& r, Value rank) {
  Nucleus n;
  n.limited = compare(in.top_k, 0, "GT");
  Value limit = ops::select(n.limited, in.top_k, ops::full_like(in.top_k, 0x7fffffff));
  n.weight = select(ops::compare(rank, like(column(limit), rank), "LT"), r.weight, 0);
  n.running = ops::cumulative_sum(n.weight, 1);
  Value mass = ops::select(n.limited, last_of(n.running), in.total);
  n.bound = select(compare(in.top_p, 1, "LT"), in.top_p * mass, kInfinity);
  return n;
}

// Whether the filters' set of each row lies inside the ranked tokens: top_k ends inside, or the
// nucleus does, or min_p cuts inside.
Value ends_inside(const FilterInput& in, const Ranked& r, const Nucleus& n) {
  auto count = static_cast<double>(r.weight.dim(1));
  Value limit_inside = ops::and_(n.limited, compare(in.top_k, count, "LE"));
  Value ended = ops::and_(ops::not_(n.limited), ops::compare(last_of(n.running), n.bound, "GE"));
  Value cut = ops::compare(last_of(r.weight), in.min_p, "LT");
  Value cut_known = ops::and_(cut, ops::or_(ops::not_(n.limited), compare(in.top_p, 1, "GE")));
  return ops::or_(limit_inside, ops::or_(ended, cut_known));
}

Filtered filtered(const FilterInput& in, const Ranked& r) {
  Value rank = ops::iota(in.u.function(), DType::i32, r.weight.dims(), 1);
  Nucleus n = nucleus_of(in, r, rank);
  // The nucleus: tokens before which less than top_p of the mass lies, and always the first.
  Value before = one_later(n.running);
  Value keep =
      ops::or_(ops::compare(before, like(column(n.bound), before), "LT"), compare(rank, 0, "EQ"));
  keep = ops::and_(keep, ops::compare(n.weight, like(column(in.min_p), n.weight), "GE"));
  Value kept = select(keep, n.weight, 0);
  Value sums = ops::cumulative_sum(kept, 1);
  Value whole = last_of(sums);
  Value place = first_beyond(sums, in.u * whole);
  Drawn drawn{at_index(r.id, place), ops::log(at_index(kept, place) / whole)};
  return {drawn, ends_inside(in, r, n)};
}

// ---- All tokens ---------------------------------------------------------------------------------

// Of weights (B, V) in [0, 1]: the largest limit in each row such that the tokens of at least that
// weight measure `target` (B) or more, as the bits of a float, which order like the floats. The
// bisection takes 30 looks at the weights.
Value limit_of(Value bits, Value target, const std::function<Value(Value)>& measure) {
  ir::Function& f = bits.function();
  Value low = ops::full(f, DType::i32, target.dims(), 0);
  Value high = ops::full(f, DType::i32, target.dims(), std::bit_cast<int32_t>(1.0f) + 1);
  auto gap = [&](const Values& v) { return ops::subtract(v[1], v[0]); };
  Values found = ops::while_loop(
      f, {low, high},
      [&](const Values& v) { return ops::reduce_or(compare(gap(v), 1, "GT"), {0}); },
      [&](const Values& v) {
        Value half = ops::shift_right_logical(gap(v), ops::full_like(v[0], 1));
        Value middle = ops::add(v[0], half);
        Value above = measure(ops::compare(bits, like(column(middle), bits), "GE"));
        Value enough = ops::compare(above, target, "GE");
        return Values{ops::select(enough, middle, v[0]), ops::select(enough, v[1], middle)};
      });
  return found[0];
}

// How many tokens before each, in chunks, a predicate (B, V) holds for.
Value count_before(Value pred) {
  Mass m = mass_of(ops::convert(pred, DType::f32));
  Value inside = ops::cumulative_sum(m.chunks, 2, {.exclusive = true});
  Value chunk = one_later(m.running);
  chunk = ops::broadcast_in_dim(chunk, inside.dims(), {0, 1});
  Value all = ops::reshape(inside + chunk, {pred.dim(0), inside.dim(1) * inside.dim(2)});
  return ops::slice_axis(all, 1, 0, pred.dim(1));
}

// The weights above the limit, and of those at the limit the first `quota` (B).
Value above_limit(Value weight, Value bits, Value limit, Value quota) {
  Value at = ops::compare(bits, like(column(limit), bits), "EQ");
  Value first = ops::compare(count_before(at), like(column(quota), weight), "LT");
  Value above = ops::compare(bits, like(column(limit), bits), "GT");
  return select(ops::or_(above, ops::and_(at, first)), weight, 0);
}

// Keeps the first `top_k` (B) tokens by falling weight.
Value keep_top_k(Value weight, Value top_k) {
  Value bits = ops::bitcast_convert(weight, DType::i32);
  auto count = [&](Value pred) { return ops::reduce_sum(ops::convert(pred, DType::i32), {1}); };
  Value limit = limit_of(bits, top_k, count);
  Value above = count(ops::compare(bits, like(column(limit), bits), "GT"));
  return above_limit(weight, bits, limit, ops::convert(ops::subtract(top_k, above), DType::f32));
}

// Keeps tokens by falling weight until `bound` (B) is reached, the one that reaches it included.
Value keep_nucleus(Value weight, Value bound) {
  Value bits = ops::bitcast_convert(weight, DType::i32);
  auto mass = [&](Value pred) { return ops::reduce_sum(select(pred, weight, 0), {1}); };
  Value limit = limit_of(bits, bound, mass);
  Value above = mass(ops::compare(bits, like(column(limit), bits), "GT"));
  Value quota = ops::ceil((bound - above) / ops::bitcast_convert(limit, DType::f32));
  return above_limit(weight, bits, limit, ops::maximum(quota, ops::full_like(quota, 1)));
}

// The filters over all tokens, in order.
Drawn draw_from_all(const FilterInput& in, Value weight) {
  auto size = static_cast<double>(weight.dim(1));
  Value limited = ops::and_(compare(in.top_k, 0, "GT"), compare(in.top_k, size, "LT"));
  Value k = ops::select(limited, in.top_k, ops::full_like(in.top_k, size));
  weight = ops::if_(
      ops::reduce_or(limited, {0}), [&] { return Values{keep_top_k(weight, k)}; },
      [&] { return Values{weight}; })[0];
  Value nucleus = keep_nucleus(weight, in.top_p * mass_of(weight).total);
  Value off = ops::broadcast_in_dim(compare(in.top_p, 1, "GE"), weight.dims(), {0});
  weight = ops::select(off, weight, nucleus);
  Value likely = ops::compare(weight, like(column(in.min_p), weight), "GE");
  weight = select(likely, weight, 0);
  Mass mass = mass_of(weight);
  Value token = draw_unfiltered(mass, in.u);
  return {token, ops::log(at_index(weight, token) / mass.total)};
}

// Draws within the filters; all tokens are looked at only if some row `wanted` needs it. Returns
// token, log-probability and DrawnBy of every row.
Values draw_filtered(const FilterInput& in, Value weight, Value wanted, int64_t prefix) {
  Filtered here = filtered(in, ranked(in, prefix));
  auto by = [&](DrawnBy how) {
    return ops::full(in.u.function(), DType::u32, in.u.dims(),
                     static_cast<double>(static_cast<uint32_t>(how)));
  };
  Values mine{here.drawn.token, here.drawn.logprob, by(DrawnBy::prefix)};
  if (prefix >= weight.dim(1)) return mine;
  Value missing = ops::and_(wanted, ops::not_(here.exact));
  return ops::if_(
      ops::reduce_or(missing, {0}),
      [&] {
        Drawn all = draw_from_all(in, weight);
        Values out{all.token, all.logprob, by(DrawnBy::whole)};
        for (size_t i = 0; i < out.size(); ++i) out[i] = ops::select(missing, out[i], mine[i]);
        return out;
      },
      [&] { return mine; });
}

}  // namespace

Value draw(Value logits, Value rows, Value edits, const DrawOptions& options) {
  Value changed = edits ? edited(logits, rows, edits) : logits;
  Value temperature = setting(rows, kTemperature);
  Value greedy = compare(temperature, 0, "EQ");
  temperature = select(ops::not_(greedy), temperature, 1);
  Scaled s = scaled(changed, temperature);
  Mass mass = mass_of(s.weight);
  Value u = uniform(rows);
  Value token = ops::select(greedy, greedy_token(changed, s.greatest), draw_unfiltered(mass, u));
  Value processed = compare(word(rows, kProcessed), 1, "EQ");
  Value how = ops::full_like(word(rows, kToken), 0);
  Value filtered_logprob;
  Value wanted;
  if (options.filters) {
    Value top_k = ops::convert(word(rows, kTopK), DType::i32);
    FilterInput in{changed, s.greatest, temperature,          mass.total,
                   u,       top_k,      setting(rows, kTopP), setting(rows, kMinP)};
    wanted = ops::or_(ops::or_(compare(top_k, 0, "GT"), compare(in.top_p, 1, "LT")),
                      compare(in.min_p, 0, "GT"));
    wanted = ops::and_(wanted, ops::not_(greedy));
    Values drawn = draw_filtered(in, s.weight, wanted, options.prefix);
    token = ops::select(wanted, drawn[0], token);
    filtered_logprob = drawn[1];
    how = ops::select(wanted, drawn[2], how);
  }
  Value of_edited = logprob_of(s, token, mass.total);
  Value logprob = of_edited;
  if (edits) {
    Scaled raw = scaled(logits, temperature);
    Value of_raw = logprob_of(raw, token, mass_of(raw.weight).total);
    // Every token banned leaves nothing to draw from: of_edited is NaN and must stay seen.
    Value drawable = ops::compare(of_edited, of_edited, "EQ");
    of_raw = ops::select(drawable, of_raw, of_edited);
    logprob = ops::select(processed, of_edited, of_raw);
  }
  if (options.filters) {
    Value finite = ops::compare(of_edited, of_edited, "EQ");
    Value after = ops::and_(ops::and_(processed, wanted), finite);
    logprob = ops::select(after, filtered_logprob, logprob);
  }
  Values parts{ops::convert(token, DType::u32), ops::bitcast_convert(logprob, DType::u32), how};
  for (Value& p : parts) p = column(p);
  return ops::concatenate(parts, 1);
}

}  // namespace strata::sample
