// How per-token losses become one number. Every aggregation is a weighted sum over the trained
// tokens of the *whole* optimiser step, so the weights are formed here, once for the step, and each
// micro-batch or data-parallel shard adds its share: cutting the step in other ways changes
// nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace strata::rl {

// loss = sum over samples i and tokens t of weight[i][t] * token_loss[i][t], where weight is
//   sequence_mean  1 / (samples * trained tokens of i)   GRPO; empty samples count and add 0
//   token_mean     1 / (trained tokens of the step)      DAPO
//   constant       1 / (samples * max_tokens)            Dr. GRPO
// at trained tokens, and 0 elsewhere.
enum class Aggregation { sequence_mean, token_mean, constant };

// By the names above. Throws invalid_argument (rl.aggregation) naming the nearest.
Aggregation parse_aggregation(std::string_view name);

struct StepWeights {
  // Of the shape of the masks.
  std::vector<std::vector<float>> weights;
  int64_t trained_tokens = 0;
  // Samples without a trained token. When all are such, every weight is 0: so is the loss and every
  // gradient, and the caller should warn.
  int64_t empty_samples = 0;
};

// `masks[i]` is CompletionMask::trained of sample i of the step (any non-zero counts as 1).
// `max_tokens`, the longest completion that sampling allows, is read by `constant` only.
// Throws invalid_argument (rl.aggregation_length) when `constant` meets max_tokens < 1 or a sample
// with more trained tokens than that.
StepWeights step_weights(std::span<const std::vector<uint8_t>> masks, Aggregation aggregation,
                         int64_t max_tokens);

}  // namespace strata::rl
