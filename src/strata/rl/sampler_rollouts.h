// Rollouts by the in-process sampler, which reads the trainer's own parameter arrays: nothing is
// copied and nothing has to be synchronised.
#pragma once

#include <memory>

#include "strata/rl/rollout_source.h"
#include "strata/rl/session.h"

namespace strata::rl {

class Engine;

// Completions of one prompt share its computation; up to 64 answers decode together. Both must
// outlive the source. A sampler error (NaN logits, a prompt beyond the context) throws, naming the
// example.
std::unique_ptr<RolloutSource> make_sampler_rollouts(const Session& session, Engine& engine);

}  // namespace strata::rl
