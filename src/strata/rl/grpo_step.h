// One GRPO step: completions of several prompts become rewards, advantages, batches and an update.
// Sampling is handed in, so that the step is testable without a sampler and a remote one fits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/rl/advantage.h"
#include "strata/rl/aggregate.h"
#include "strata/rl/engine.h"
#include "strata/rl/grpo_work.h"
#include "strata/rl/mask.h"
#include "strata/rl/metrics.h"
#include "strata/rl/phases.h"
#include "strata/rl/reward.h"
#include "strata/rl/task.h"

namespace strata::rl {

// One sampled completion.
struct Rollout {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;  // of the distribution it was sampled from
  std::string text;             // without the stop token
  bool finished = false;        // ended by itself
  uint64_t version = 0;         // of the parameters it was sampled with
};

struct RolloutGroup {
  const Example* example = nullptr;
  std::vector<int32_t> prompt;
  std::vector<Rollout> rollouts;
};

struct GrpoOptions {
  double temperature = 1.0;
  int64_t max_new_tokens = 64;
  AdvantageOptions advantage;
  Aggregation aggregation = Aggregation::sequence_mean;
  MaskOptions mask;
  // Optimiser updates that reuse the same completions; above 1 the old log-probs are scored first.
  int64_t iterations = 1;
  // Largest number of updates that may lie between sampling and training; staler samples are
  // dropped and counted.
  int64_t max_version_lag = 1;
  bool use_reference = false;  // beta > 0: log-probs under `reference`
};

// Throws invalid_argument (rl.grpo_options) naming the field that is out of range.
void check(const GrpoOptions& options);

class GrpoStep {
 public:
  // `reference` may be null unless options.use_reference. All must outlive this.
  GrpoStep(Engine& engine, RewardSet& rewards, const GrpoOptions& options, PhaseClock& clock,
           const runtime::ParameterTable* reference);

  // Judges the groups and lays them out for training. Throws what a reward throws.
  GrpoWork begin(int64_t step, std::vector<RolloutGroup> groups);
  // Takes the micro-steps that are left, and an optimiser step after the last of each iteration.
  // `stop` is asked before each micro-step and may save; returns false when it said so. Throws
  // aborted when the optimiser gives up.
  bool train(GrpoWork& work, const std::function<bool()>& stop);
  // What the whole step came to.
  GrpoStepResult finish(GrpoWork work) const;

 private:
  struct Judged;  // groups with rewards, masks and advantages
  Judged judge(std::vector<RolloutGroup> groups, StepMetrics& metrics);
  std::vector<BatchGroup> batch_groups(const Judged& judged) const;
  void score(std::vector<BatchGroup>& groups);
  void report_loss(const std::vector<float>& sums, StepMetrics& metrics) const;

  Engine& engine_;
  RewardSet& rewards_;
  GrpoOptions options_;
  PhaseClock& clock_;
  const runtime::ParameterTable* reference_;
};

}  // namespace strata::rl
