// What a training run keeps on disk: checkpoints it can resume from, and the exported model.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_writer.h"
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

// What the run holds beside a program while a checkpoint is being written: the copy of its state in
// snapshot mode, nothing in stream mode.
uint64_t saving_bytes(const RunConfig& run, const Engine& engine);

// Logs what the programs need, and what saving adds. Throws resource_exhausted (rl.memory) when a
// program of a CPU device needs more than `machine_bytes` (0 = unknown) with it: the system would
// end the process in its first step.
void report_memory(const std::vector<runtime::MemoryReport>& reports, const std::string& platform,
                   uint64_t machine_bytes, uint64_t saving = 0);

// The writer of the run's checkpoints, by its configuration.
std::unique_ptr<checkpoint::CheckpointWriter> open_writer(const RunConfig& run);

// What a checkpoint keeps of a run beside the engine's state.
struct Progress {
  int64_t step = 0;
  int64_t best_step = -1;        // whose checkpoint is never dropped; -1 = none
  Json loader = Json::object();  // position in the data
  Json state = Json::object();   // metrics and the like
  Json config = Json::object();  // every key with the value in force
};

// Saves RUN/checkpoints/step-N. Throws as CheckpointWriter::save.
void save_run(checkpoint::CheckpointWriter& writer, const Session& session, const Engine& engine,
              uint64_t seed, const Progress& progress);

// Restores the engine from the latest checkpoint and returns what else was saved; empty when there
// is none. A checkpoint that cannot be loaded is an error, never a fresh start.
std::optional<Progress> load_latest(const std::filesystem::path& run, Engine& engine,
                                    const runtime::ClientPtr& client);

// Puts the parameters of step `step` back (the model directory's own for step 0).
void restore_parameters(const RunConfig& run, const Session& session, Engine& engine, int64_t step);

// Writes a Hugging Face directory of the current parameters to `target`, which must not exist, or,
// where that is empty, to RUN/export in place of an older one. A failure leaves the older one.
void export_run(const RunConfig& run, const Session& session, const Engine& engine,
                const std::filesystem::path& target = {});

}  // namespace strata::rl
