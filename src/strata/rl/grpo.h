// Group-relative policy optimisation, the whole run: sample, judge, train, evaluate, save, report.
//
//   for each step: prompts → completions (RolloutSource) → GrpoStep (rewards, advantages, update)
//
// The run's directory holds checkpoints/, metrics.jsonl, TensorBoard events, config.json, and at
// the end export/ (a Hugging Face directory), report.html and summary.json.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "strata/base/file.h"
#include "strata/rl/engine.h"
#include "strata/rl/grpo_config.h"
#include "strata/rl/phases.h"
#include "strata/rl/report.h"
#include "strata/rl/rollout_source.h"
#include "strata/rl/run_files.h"
#include "strata/rl/session.h"

namespace strata::rl {

struct GrpoSummary {
  double before = 0, after = 0;  // accuracy on the held-out problems
  int64_t held_out = 0;
  int64_t steps = 0;      // finished
  int64_t best_step = 0;  // whose parameters were kept
  double seconds = 0;
  double peak_gib = 0;
  bool interrupted = false;
};

// Makes the engine's rollouts; given the engine because they read its parameters.
using MakeRollouts = std::function<std::unique_ptr<RolloutSource>(const Session&, Engine&)>;

class GrpoRun {
 public:
  // Opens the output directory (locked for this run), problems, engine and sinks. Throws
  // already_exists when the directory holds a run and config.run.resume is false; whatever opening
  // its parts throws. Nothing is written before all of that succeeded.
  GrpoRun(GrpoConfig config, std::shared_ptr<runtime::Compiler> compiler,
          const MakeRollouts& make_rollouts);
  ~GrpoRun();

  // Trains until the configured step, or until `interrupted` or run.max_seconds between two
  // micro-steps or two sampled tokens, evaluations included: then the state is saved and the
  // summary says so. A step's completions are saved with it once they are whole; an evaluation that
  // was stopped is done again.
  GrpoSummary run(const Interrupted& interrupted);

 private:
  struct State;  // what a checkpoint of the run remembers beside the tensors
  void open_splits();
  BatchShape choose_shape() const;
  void make_engine(const MakeRollouts& make_rollouts);
  void open_sinks(int64_t resume_at);
  void resume();
  void train_steps(RunClock& clock, GrpoSummary& summary);
  bool first_evaluation(const RunClock& clock);
  bool go_on(RunClock& clock);
  std::vector<RolloutGroup> sample(int64_t step, const RunClock& clock);
  bool step(int64_t step, RunClock& clock);
  bool report_step(const RunClock& clock);
  void save(int64_t step);
  bool back_to_whole(const Error& error);
  void save_before_failure(const Error& error);
  bool finish(const RunClock& clock, GrpoSummary& summary);
  bool evaluate_and_export(const RunClock& clock, GrpoSummary& summary);
  void write_outputs(const GrpoSummary& summary);
  Report report(const GrpoSummary& summary) const;
  std::optional<Evaluation> evaluate_split(const std::vector<Example>& examples,
                                           const RunClock& clock);

  GrpoConfig config_;
  Stopwatch clock_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<checkpoint::CheckpointWriter> writer_;
  Session session_;
  TaskSplits splits_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<RolloutSource> rollouts_;
  RewardSet rewards_;
  PhaseClock phases_;
  MetricsLog metrics_;
  runtime::TablePtr reference_;
  std::unique_ptr<GrpoStep> step_;
  std::unique_ptr<State> state_;
  std::optional<GrpoWork> work_;  // of the step under way
  int64_t saved_step_ = -1;
  int64_t saved_micro_ = -1;  // micro-steps after it; -1 = saved between two steps
  // Of the parameters after the last finished step; nothing when they are already others.
  std::optional<uint64_t> state_version_ = 0;
  // To be saved in place of the engine's, of which the last update failed.
  std::optional<optim::StepCounts> counts_;
};

}  // namespace strata::rl
