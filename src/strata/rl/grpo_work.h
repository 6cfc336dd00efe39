// GrpoWork: a step of GRPO whose completions are judged and laid out, so that only its micro-steps
// are left, and its form in a checkpoint: a run that stops between two micro-steps goes on with the
// same completions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/base/json.h"
#include "strata/rl/engine.h"
#include "strata/rl/metrics.h"
#include "strata/rl/step_tensor.h"
#include "strata/rl/token_batch.h"

namespace strata::rl {

// Everything about a step that is worth keeping.
struct GrpoStepResult {
  StepMetrics metrics;
  std::vector<double> rewards;  // a sample, group by group
  std::vector<uint8_t> solved;  // likewise
  UpdateStats update;
  bool trained = false;  // false when no sample taught anything (all advantages 0)
};

struct GrpoWork {
  std::vector<BatchGroup> groups;   // what is trained on, with old and reference log-probs
  std::vector<TokenBatch> batches;  // pack(groups)
  int64_t done = 0;                 // micro-steps, each batch once an iteration
  std::vector<float> sums;          // of the loss's metrics over those
  GrpoStepResult result;            // so far
  // As it was right after the last update of this step, or before its first micro-step: what an
  // error later on goes back to. Nothing when the step was resumed in between.
  struct Mark {
    int64_t done = 0;
    std::vector<float> sums;
    optim::StepCounts counts;
    uint64_t version = 0;  // of the parameters
  };
  std::optional<Mark> mark;
};

// Notes the present as the mark.
void set_mark(GrpoWork& work, const Engine& engine);

// All but `groups`' numbers, `batches`, `sums`, result.update and `mark`. `shape` is the batches'.
Json to_json(const GrpoWork& work, const BatchShape& shape);
// The numbers: "prompts" and "completions" (token ids, in order), "terms" (5, tokens), "sums" if
// any.
std::vector<StepTensor> tensors_of(const GrpoWork& work);

// The inverse of both after `done` micro-steps, packed for `shape`, which may be another one before
// the first of them. Throws data_loss (rl.saved_step) naming `where` when they do not fit one
// another, failed_precondition (rl.saved_batches) when some of the batches are done and `shape`
// would cut the completions otherwise.
GrpoWork work_from(const Json& json, std::span<const StepTensor> tensors, const BatchShape& shape,
                   int64_t done, const std::string& where);

}  // namespace strata::rl
