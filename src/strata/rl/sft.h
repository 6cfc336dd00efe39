// Supervised fine-tuning, the whole run: batches of a JSON-lines data set, mean cross entropy over
// the trained tokens of a step, evaluation, checkpoints, export.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "strata/base/config.h"
#include "strata/base/file.h"
#include "strata/data/batching.h"
#include "strata/rl/engine.h"
#include "strata/rl/grpo_config.h"
#include "strata/rl/phases.h"
#include "strata/rl/run_files.h"
#include "strata/rl/session.h"

namespace strata::rl {

// Keys: model.*, layers.*, run.*, optimizer.*, data.{train, eval, truncation, bad_lines, packing,
// shuffle, add_eos}, train.{rows, row_tokens, accumulate, compute, logit_chunk}, sft.{steps,
// eval_every, eval_batches}.
struct SftConfig {
  SessionOptions session;
  std::string plugin;
  RunConfig run;
  OptimizerConfig optimizer;
  std::filesystem::path train, eval;
  data::DatasetOptions dataset;
  data::BatchOptions batches;
  TrainOptions options;
  bool add_eos = true;
  int64_t accumulate = 1;  // batches a step
  int64_t steps = 0;
  int64_t eval_every = 0;           // steps; 0 = only at the end
  int64_t eval_batches = 0;         // 0 = the whole file
  std::filesystem::path export_to;  // empty = RUN/export
  Json effective;
};
SftConfig read_sft_config(Config& config);

struct SftSummary {
  int64_t steps = 0;
  double first_loss = 0, last_loss = 0;
  std::optional<double> eval_loss;
  double seconds = 0;
  bool interrupted = false;
};

class SftRun {
 public:
  // As GrpoRun's constructor.
  SftRun(SftConfig config, std::shared_ptr<runtime::Compiler> compiler);
  ~SftRun();
  // Trains until the configured step, or until `interrupted` or run.max_seconds between two
  // micro-steps or two batches of an evaluation; the state is saved either way, and resuming goes
  // on there. An evaluation that was stopped is done again. It is also saved before
  // an error leaves, such as that of a bad line, as far as the state is whole.
  SftSummary run(const Interrupted& interrupted);

 private:
  void open_data();
  void make_engine();
  void resume();
  bool go_on(RunClock& clock, SftSummary& summary);
  bool step(RunClock& clock);
  void micro_step();
  void begin_step();
  std::optional<double> evaluate(const RunClock& clock);
  bool report(const RunClock& clock, SftSummary& summary);
  bool finish(const RunClock& clock);
  void save();
  void save_before_failure(const Error& error);
  Json position() const;
  data::Dataset open_dataset(const std::filesystem::path& path) const;
  data::BatchStream open_stream(data::Dataset& dataset, int64_t epochs) const;

  SftConfig config_;
  Stopwatch clock_;
  Session session_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<checkpoint::CheckpointWriter> writer_;
  std::unique_ptr<data::Dataset> dataset_;
  std::unique_ptr<data::BatchStream> stream_;
  std::unique_ptr<Engine> engine_;
  PhaseClock phases_;
  MetricsLog metrics_;
  int64_t done_ = 0;  // steps
  // Metrics of the last of them, as long as its evaluation or their writing is still to come.
  std::optional<StepMetrics> unreported_;
  // Of the step under way: micro-steps done, trained tokens in them, and, as at its beginning (or
  // when it was resumed in its middle), position in the data, counts, version of the parameters.
  int64_t micro_ = 0;
  bool from_start_ = true;
  double trained_ = 0;
  Json begin_ = Json::object();
  optim::StepCounts counts_;
  uint64_t version_ = 0;
  Json position_ = Json::object();  // in the data, after the last micro-step
};

// The scored tokens of a batch: every place whose loss mask is set. Throws internal when there are
// more than the shape has room for.
TokenBatch token_batch(const data::Batch& batch, const BatchShape& shape);

}  // namespace strata::rl
