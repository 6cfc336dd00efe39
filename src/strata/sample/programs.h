// The sampler's programs, as traced functions. All of them follow the same conventions:
//   parameters   the slots of the structure's manifest first, in its order, never donated
//   state        the layers' values (CausalLm::state_types), layer by layer, donated where it is
//                written: the memory stays the same from step to step
// Pure tracing: nothing here knows a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/models/causal_lm.h"
#include "strata/nn/structure.h"
#include "strata/sample/draw.h"

namespace strata::sample {

// The model as the programs see it.
struct ModelView {
  const models::CausalLm* model = nullptr;
  const nn::Structure* structure = nullptr;
  DType compute =
      DType::f32;  // of activations and state; parameters are converted where they differ
};

// Rows that decode together, and how many tokens each has room for.
struct StateShape {
  int64_t rows = 1;
  int64_t length = 0;

  friend bool operator==(const StateShape&, const StateShape&) = default;
};

// The state of one prompt's tokens. Prompts are computed one by one: sums over several at once
// would have other bits, and an answer would depend on what came with it.
//   inputs   parameters, [state of one row: donated, if `continued`], ids i32 (1, tokens), length
//            i32 (1)
//   results  state of one row with room for `room` tokens
// Not continued: `length` tokens from the start (the rest is padding) and tokens = room. Continued:
// the state holds `length` tokens already, and the ids are written after them; padding lies behind
// and is overwritten by what follows. Throws invalid_argument "sample.prefill_shape".
struct PrefillShape {
  int64_t tokens = 0;
  int64_t room = 0;
  bool continued = false;
};
std::unique_ptr<ir::Function> prefill_function(const ModelView& view, const PrefillShape& shape);

// Feeds one token a row.
//   inputs   parameters, state: donated, rows u32 (B, kRowWords)
//   results  state, logits f32 (B, V) of the next token
std::unique_ptr<ir::Function> decode_function(const ModelView& view, const StateShape& shape);

// Draws each row's next token. Apart from decode, so that what the requests ask for selects a small
// program only.
//   inputs   logits f32 (B, V), rows u32 (B, kRowWords), [edits i32 (B, U, 2), if U > 0]
//   results  drawn u32 (B, 3), as `draw` gives it
struct DrawShape {
  int64_t rows = 1;
  int64_t vocabulary = 0;
  int64_t edits = 0;  // U
  DrawOptions options;
};
std::unique_ptr<ir::Function> draw_function(const DrawShape& shape,
                                            const sharding::Mesh& mesh = {});

// Puts a prompt's state into one row.
//   inputs   state: donated, state of one row with room for `room` tokens, row i32 ()
//   results  state
std::unique_ptr<ir::Function> insert_function(const ModelView& view, int64_t room,
                                              const StateShape& shape);

// A state of another shape: row r of the result is row source[r] of `from`; what it has no room
// for is cut, new room is zero.
//   inputs   state of shape `from`, source i32 (to.rows)
//   results  state of shape `to`
std::unique_ptr<ir::Function> reshape_function(const ModelView& view, const StateShape& from,
                                               const StateShape& to);

// A state of zeros.
std::unique_ptr<ir::Function> empty_function(const ModelView& view, const StateShape& shape);

}  // namespace strata::sample
