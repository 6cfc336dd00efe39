// Drawing the next token from logits, as traced code: the rules of logits, the filters, the draw
// and the log-probability. Everything that a request may set is an input, so that no setting ever
// compiles a program.
//
// Order of the rules: repetition, frequency and presence penalties, banned tokens (before
// min_new_tokens), temperature, top-k, top-p, min-p, each filter on what the one before it left.
// Temperature 0 takes the most likely token after the penalties and looks at no filter. Ties go to
// the lower id.
//
// The draw inverts the cumulative distribution with one uniform number a row, u = H(seed, request,
// sample, position) by threefry, so that it depends on nothing but the row.
#pragma once

#include <cstdint>

#include "strata/ir/ir.h"

namespace strata::sample {

// What a decode step is told about each row: u32 (B, kRowWords); floats as their bits.
enum RowWord : int64_t {
  kToken,     // the row's last token, which this step feeds
  kPosition,  // its position, which is how many tokens the row's state holds
  kSeedLow,
  kSeedHigh,
  kRequestLow,
  kRequestHigh,
  kSample,
  kTopK,         // 0 = off
  kTemperature,  // f32; 0 = greedy
  kTopP,         // f32; 1 = off
  kMinP,         // f32; 0 = off
  kRepetition,   // f32; 1 = off
  kFrequency,    // f32; 0 = off
  kPresence,     // f32; 0 = off
  kProcessed,    // 1: the log-probability is that after penalties and filters
  kRowWords = 16,
};

// One edit of a row's logits: i32 pairs (token id, code). Edits of a row name different tokens; an
// id of the vocabulary's size or more does nothing.
inline constexpr int32_t kEditSeen = 1;    // in prompt or output: the repetition penalty applies
inline constexpr int32_t kEditBanned = 2;  // never drawn
inline constexpr int32_t kEditCount = 4;   // times this: how often the token was generated

// How a row's token was found: without filters; among the most likely tokens, where its filters
// end; or among all, whose limits are found by bisection. Nothing is ever sorted as a whole.
enum class DrawnBy : uint32_t { plain = 0, prefix = 1, whole = 2 };

struct DrawOptions {
  bool filters = false;  // some row may use top-k, top-p or min-p
  int64_t prefix = 256;  // the most likely tokens that filters look at first
};

// logits (B, V) f32, rows u32 (B, kRowWords), edits i32 (B, U, 2) or null → u32 (B, 3): the token,
// the bits of its f32 log-probability, DrawnBy. A log-probability of NaN says that the row's logits
// were not all finite numbers (or that every token was banned).
//
// The log-probability is log_softmax(logits / T), before penalties and filters unless kProcessed;
// greedy rows count as T = 1.
ir::Value draw(ir::Value logits, ir::Value rows, ir::Value edits, const DrawOptions& options);

}  // namespace strata::sample
