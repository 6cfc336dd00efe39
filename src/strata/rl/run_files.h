// What a training run keeps on disk: checkpoints it can resume from, and the exported model.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/rl/engine.h"
#include "strata/rl/grpo_config.h"
#include "strata/rl/session.h"

namespace strata::rl {

// Throws already_exists when the output directory holds a run's metrics or checkpoints and the
// configuration does not resume (rl.run_exists), or when something stands where the model is to be
// exported (rl.export_exists; empty = RUN/export, which a run may replace).
void check_output(const RunConfig& run, const std::filesystem::path& export_to = {});

// Makes the output directory and keeps other runs out of it. Throws as DirectoryLock; not_found or
// permission_denied (checkpoint.directory) when it cannot be made.
std::unique_ptr<DirectoryLock> open_output(const RunConfig& run);

// Logs what the programs need. Throws resource_exhausted (rl.memory) when a program of a CPU device
// needs more than `machine_bytes` (0 = unknown): the system would end the process in its first
// step.
void report_memory(const std::vector<runtime::MemoryReport>& reports, const std::string& platform,
                   uint64_t machine_bytes);

// Writes RUN/checkpoints/step-N atomically and applies retention; `best_step` is never dropped.
void save_run(const RunConfig& run, const Session& session, const Engine& engine, int64_t step,
              int64_t best_step, const Json& state);

// Restores the engine from the latest checkpoint and returns the run's state; empty when there is
// none. A checkpoint that cannot be loaded is an error, never a fresh start.
std::optional<Json> load_latest(const std::filesystem::path& run, Engine& engine,
                                const runtime::ClientPtr& client);

// Puts the parameters of step `step` back (the model directory's own for step 0).
void restore_parameters(const RunConfig& run, const Session& session, Engine& engine, int64_t step);

// Writes a Hugging Face directory of the current parameters to `target`, which must not exist, or,
// where that is empty, to RUN/export in place of an older one. A failure leaves the older one.
void export_run(const RunConfig& run, const Session& session, const Engine& engine,
                const std::filesystem::path& target = {});

}  // namespace strata::rl
