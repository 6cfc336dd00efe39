#include "strata/optim/step_counts.h"

#include <fmt/format.h>

#include "strata/base/error.h"

namespace strata::optim {

std::string_view name_of(StepOutcome outcome) {
  if (outcome == StepOutcome::applied) return "applied";
  return outcome == StepOutcome::empty ? "empty" : "non_finite";
}

StepOutcome outcome_of(bool applied, float weight, int64_t micro_steps_skipped) {
  if (applied) return StepOutcome::applied;
  bool empty = weight == 0 && micro_steps_skipped == 0;
  return empty ? StepOutcome::empty : StepOutcome::non_finite;
}

void record(StepCounts& counts, StepOutcome outcome, int64_t max_in_a_row) {
  if (outcome == StepOutcome::empty) {
    ++counts.steps_empty;
    return;
  }
  if (outcome == StepOutcome::applied) {
    ++counts.count;
    counts.skipped_in_a_row = 0;
    return;
  }
  ++counts.steps_skipped;
  ++counts.skipped_in_a_row;
  if (max_in_a_row == 0 || counts.skipped_in_a_row < max_in_a_row) return;
  fail({.id = "optim.skipped_in_a_row",
        .where = fmt::format("after {} updates", counts.count),
        .expected = fmt::format("a finite loss and gradient in {} steps", max_in_a_row),
        .got = fmt::format("{} non-finite steps in a row", counts.skipped_in_a_row),
        .cure = "Parameters and slots are unchanged since the last finite step. Lower the rate or "
                "look for bad data; max_in_a_row = 0 never stops",
        .code = Code::aborted});
}

}  // namespace strata::optim
