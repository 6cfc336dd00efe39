// What every layer of a call shares about its tokens: rotary tables and who may see whom.
#pragma once

#include "strata/ir/ir.h"

namespace strata::nn {

// B rows, T new tokens a row; with a cache, room for P tokens a row.
struct TokenContext {
  ir::Value cos, sin;  // (B, T, R/2) f32: rotary tables of the new tokens
  // (B, T, S) pred: new token t sees key s, which is a new token (S = T) or, with a cache, the
  // entry in column s after the new ones were written (S = P).
  ir::Value mask;
  // (B) i32: the column of each row's first new token; null without a cache. A row whose tokens do
  // not fit there writes nothing; if it is the only row, they must fit.
  ir::Value cache_start = {};
  bool want_state = false;  // whether layers return their state (cache entries)
};

// Causal mask inside segments. `segments` (B, T) i32: tokens see earlier tokens (and themselves) of
// their own segment; segment 0 is padding, which sees nothing and is seen by none. With `parents`
// (B, T) i32 they also see earlier tokens of the segment parents[t] (0 = none): several completions
// share one prompt in a row, each blind to the others.
ir::Value segment_mask(ir::Value segments, ir::Value parents = {});

// Mask of T new tokens over caches of `length` columns: token t of a row that starts at column
// start (B) i32 sees the columns up to its own, start + t.
ir::Value cache_mask(ir::Value start, int64_t tokens, int64_t length);

// Causal mask for rows of which only the tokens where `valid` (B, T) pred holds are real.
ir::Value causal_mask(ir::Value valid);

}  // namespace strata::nn
