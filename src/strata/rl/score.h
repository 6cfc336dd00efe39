// Scoring: log-probabilities of given tokens under a model, and optionally the gradient of their
// mean cross entropy. The program behind `strata score`.
#pragma once

#include <memory>

#include "strata/ir/ir.h"
#include "strata/models/causal_lm.h"
#include "strata/nn/structure.h"

namespace strata::rl {

struct ScoreOptions {
  int64_t rows = 1;
  int64_t tokens = 1;
  bool gradients = false;
  DType compute = DType::f32;  // element type of weights and activations inside the model
};

// The declared type of `input_ids`: rows over the axes of the rule "batch", or on every device of
// the mesh, with the reason.
sharding::Resolved score_input_type(const sharding::Placement& placement,
                                    const ScoreOptions& options);

// Parameters: the structure's slots in order (float32 masters), then `input_ids` (rows, tokens)
// i32. Results: `logits` (rows, tokens, V) f32, `token_logprobs` (rows, tokens-1) f32 where entry t
// is log p(ids[t+1] | ids[..t]), `loss` () f32 their negated mean, then with `gradients` the
// gradient of the loss per slot, in float32. Every token is real: rows hold no padding.
// Throws invalid_argument when there are fewer than 2 tokens, out_of_range beyond the model's
// context.
std::unique_ptr<ir::Function> score_function(const models::CausalLm& model,
                                             const nn::Structure& structure,
                                             const ScoreOptions& options);

}  // namespace strata::rl
