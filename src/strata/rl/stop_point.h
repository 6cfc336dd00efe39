// Where a run asks whether it is to stop.
#pragma once

#include <functional>

namespace strata::rl {

enum class StopPoint {
  step,        // between two steps
  sampling,    // between two prompts or tokens of a step's completions
  micro_step,  // before a micro-step that is not the first thing of its step
  evaluation,  // between two prompts, tokens or batches of an evaluation, or two pieces of the
               // export
};

// Whether the run is to save what it has done and to end.
using Interrupted = std::function<bool(StopPoint)>;

}  // namespace strata::rl
