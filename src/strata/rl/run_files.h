// What a training run keeps on disk: checkpoints it can resume from, and the exported model.
#pragma once

#include <filesystem>
#include <optional>

#include "strata/base/json.h"
#include "strata/rl/engine.h"
#include "strata/rl/grpo_config.h"
#include "strata/rl/session.h"

namespace strata::rl {

// Throws already_exists (rl.run_exists) when the output directory holds a run's metrics or
// checkpoints and the configuration does not resume.
void check_output(const RunConfig& run);

// Writes RUN/checkpoints/step-N atomically and applies retention; `best_step` is never dropped.
void save_run(const RunConfig& run, const Session& session, const Engine& engine, int64_t step,
              int64_t best_step, const Json& state);

// Restores the engine from the latest checkpoint and returns the run's state; empty when there is
// none. A checkpoint that cannot be loaded is an error, never a fresh start.
std::optional<Json> load_latest(const std::filesystem::path& run, Engine& engine,
                                const runtime::ClientPtr& client);

// Puts the parameters of step `step` back (the model directory's own for step 0).
void restore_parameters(const RunConfig& run, const Session& session, Engine& engine, int64_t step);

// Writes a Hugging Face directory of the current parameters to `target` (empty = RUN/export),
// replacing an older export there.
void export_run(const RunConfig& run, const Session& session, const Engine& engine,
                std::filesystem::path target = {});

}  // namespace strata::rl
