// Accumulation over micro-steps. A micro-step returns sums over its tokens (or sequences), never
// means; sums are added, and update.h divides once by the summed weight. So k micro-steps equal one
// on the concatenated batch, however unequal their token counts are. Traced; pure.
#pragma once

#include <span>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/optim/optimizer.h"

namespace strata::optim {

// What a micro-step hands over.
struct Sums {
  ir::Value loss;        // rank-0 f32: sum of weighted losses
  ir::Values gradients;  // of that sum, one a trained parameter, any float type
  ir::Value weight;      // rank-0 f32: sum of the weights, >= 0
};

// The state between micro-steps: the sums so far in float32, and how many micro-steps they hold or
// have left out (rank-0 i32).
struct Accumulator {
  Sums sums;
  ir::Value added;
  ir::Value skipped;
};

// Types and names ("accumulator.gradient/<parameter>", "accumulator.loss" ...) in the order of
// `flat`, for planning memory and for checkpoints between micro-steps.
std::vector<SlotSpec> accumulator_slots(std::span<const Parameter> parameters);

// Gradients, loss, weight, added, skipped: the accumulator as a list of inputs or outputs.
ir::Values flat(const Accumulator& accumulator);
// Inverse of flat. Throws invalid_argument (optim.accumulator) for fewer than four values.
Accumulator accumulator_of(const ir::Values& values);

// The accumulator after the first micro-step; no memory is filled with zeros beforehand. When
// anything in `micro` is not finite, it holds zeros and counts one skipped.
Accumulator begin(const Sums& micro);

// The accumulator after one more. When anything in `micro` is not finite, sums and `added` keep
// their bits and `skipped` grows by one. Output i has the type of input i, so it can be
// donated; with f32 gradients the addition is then in place (bf16 ones cost a float32 copy of one
// leaf at a time with the CPU plug-ins).
// Throws invalid_argument (optim.accumulate) when the numbers or dims of the gradients differ.
Accumulator accumulate(const Accumulator& accumulator, const Sums& micro);

}  // namespace strata::optim
