// What every layer of a call shares about its tokens: rotary tables and who may see whom.
#pragma once

#include "strata/ir/ir.h"

namespace strata::nn {

// B rows, T new tokens a row, P cached tokens a row.
struct TokenContext {
  ir::Value cos, sin;        // (B, T, R/2) f32: rotary tables of the new tokens
  ir::Value mask;            // (B, T, T) pred: new token t sees new token s
  ir::Value past_mask = {};  // (B, T, P) pred: new token t sees cached token p; null without cache
  bool want_state = false;   // whether layers return their new cache entries
};

// Causal mask inside segments. `segments` (B, T) i32: tokens see earlier tokens (and themselves) of
// their own segment; segment 0 is padding, which sees nothing and is seen by none. With `parents`
// (B, T) i32 they also see earlier tokens of the segment parents[t] (0 = none): several completions
// share one prompt in a row, each blind to the others.
ir::Value segment_mask(ir::Value segments, ir::Value parents = {});

// Causal mask for rows of which only the tokens where `valid` (B, T) pred holds are real.
ir::Value causal_mask(ir::Value valid);

}  // namespace strata::nn
