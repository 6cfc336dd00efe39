// What a training run keeps on disk: checkpoints it can resume from, and the exported model.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/checkpoint/checkpoint_writer.h"
#include "strata/rl/engine.h"
#include "strata/rl/grpo_config.h"
#include "strata/rl/session.h"
#include "strata/rl/step_tensor.h"
#include "strata/rl/stop_point.h"

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
  // Micro-steps done of the step under way; nothing between two steps.
  std::optional<int64_t> micro_steps = {};
  int64_t best_step = -1;        // whose checkpoint is never dropped; -1 = none
  Json loader = Json::object();  // position in the data
  Json state = Json::object();   // metrics and the like
  Json config = Json::object();  // every key with the value in force
  // In the middle of a step only; no name begins like one of the optimiser's.
  std::vector<StepTensor> tensors = {};
  // In place of the engine's.
  std::optional<optim::StepCounts> counts = {};
};

// When a run saves by the clock, and when it ends: by the clock or as it is told.
class RunClock {
 public:
  RunClock(const RunConfig& run, Interrupted interrupted)
      : save_seconds_(run.save_seconds),
        max_seconds_(run.max_seconds),
        interrupted_(std::move(interrupted)) {}

  bool stops(StopPoint point) const {
    return interrupted_(point) || (max_seconds_ > 0 && whole_.seconds() >= max_seconds_);
  }
  bool save_is_due() const { return save_seconds_ > 0 && since_.seconds() >= save_seconds_; }
  void saved() { since_ = Stopwatch(); }

 private:
  double save_seconds_, max_seconds_;
  Interrupted interrupted_;
  Stopwatch whole_, since_;
};

// "step 12", "step 12 and 3 micro-steps".
std::string progress_text(int64_t step, int64_t micro_steps);

// Saves RUN/checkpoints/step-N, or step-N+K in the middle of a step, where the sums of gradients go
// with the optimiser's slots. Throws aborted (rl.not_finite), and saves nothing, when a trained
// parameter is not finite: no such state replaces a better one; and as CheckpointWriter::save.
void save_run(checkpoint::CheckpointWriter& writer, const Session& session, Engine& engine,
              uint64_t seed, const Progress& progress);

// Restores the engine from the latest checkpoint and returns what else was saved; empty when there
// is none. A checkpoint that cannot be loaded is an error, never a fresh start.
std::optional<Progress> load_latest(const std::filesystem::path& run, Engine& engine,
                                    const runtime::ClientPtr& client);

// Whether the weight average is what the run evaluates and exports.
bool uses_average(const RunConfig& run, const Engine& engine);
// Runs `action` with that in the place of the parameters (Engine::with_average); as it is without.
void with_evaluated(const RunConfig& run, Engine& engine, const std::function<void()>& action);

// Puts what was evaluated after step `step` in the place of the parameters, for good: these or
// their average; the model directory's own for step 0.
void restore_evaluated(const RunConfig& run, const Session& session, Engine& engine, int64_t step);

// Writes a Hugging Face directory of the current parameters, adapters merged, to `target`, which
// must not exist, or, where that is empty, to RUN/export in place of an older one. A failure leaves
// the older one. A model with adapters also writes these, as PEFT reads them, to RUN/adapter.
// Returns whether it was done: not when `clock` stops it (StopPoint::evaluation) between two
// tensors, which leaves the older one too.
bool export_run(const RunConfig& run, const Session& session, const Engine& engine,
                const RunClock& clock, const std::filesystem::path& target = {});

}  // namespace strata::rl
