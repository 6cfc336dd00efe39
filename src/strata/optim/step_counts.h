// Counting steps on the host: the one step counter of a run, and what to do about steps that could
// not be applied.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata::optim {

// What became of a step.
//   applied     parameters and slots moved
//   non_finite  a loss or gradient was infinite or NaN; everything kept its bits
//   empty       the summed weight was 0 (every token masked); everything kept its bits
enum class StepOutcome { applied, non_finite, empty };

// "applied", "non_finite", "empty".
std::string_view name_of(StepOutcome outcome);

// From what the update program returns: StepResult::applied and ::weight, and the accumulator's
// `skipped` (0 without accumulation). A weight of 0 because every micro-step was skipped is
// non-finite, not empty.
StepOutcome outcome_of(bool applied, float weight, int64_t micro_steps_skipped = 0);

// Travels with a checkpoint.
struct StepCounts {
  // Updates applied. Schedules and bias corrections read it before the increment; it advances once
  // an optimiser step, whatever the number of micro-steps.
  int64_t count = 0;
  int64_t steps_skipped = 0;  // non-finite
  int64_t steps_empty = 0;
  int64_t skipped_in_a_row = 0;

  friend bool operator==(const StepCounts&, const StepCounts&) = default;
};

// Notes an outcome. An empty step neither extends nor ends a row of skipped ones. Throws aborted
// (optim.skipped_in_a_row), after the counts were updated, at the `max_in_a_row`-th non-finite step
// in a row; 0 never throws.
void record(StepCounts& counts, StepOutcome outcome, int64_t max_in_a_row);

}  // namespace strata::optim
