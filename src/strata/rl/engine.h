// Engine: a model under training, on the mesh that its structure is placed on. It owns parameters,
// optimiser state and programs: `accumulate` adds a batch's gradients, `update` takes an optimiser
// step, `logprobs` scores. The sampler reads the same parameter arrays through `parameters()`:
// nothing is copied.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/models/causal_lm.h"
#include "strata/nn/structure.h"
#include "strata/optim/step_counts.h"
#include "strata/optim/update.h"
#include "strata/rl/token_batch.h"
#include "strata/rl/train_programs.h"
#include "strata/runtime/compile.h"
#include "strata/runtime/executor.h"
#include "strata/runtime/memory_report.h"
#include "strata/runtime/parameter_table.h"

namespace strata::rl {

struct UpdateStats {
  double loss = 0;
  double weight = 0;
  optim::StepOutcome outcome = optim::StepOutcome::applied;
  double grad_norm = 0;
  double lr = 0;
};

// Not thread-safe. `model` must outlive it.
class Engine {
 public:
  struct Setup {
    const models::CausalLm* model = nullptr;
    const nn::Structure* structure = nullptr;
    std::shared_ptr<runtime::Compiler> compiler;
    // One a slot of the manifest, float32, in its order.
    std::vector<runtime::Array> parameters;
    BatchShape shape;
    TrainOptions options;
    // The step's non-finite updates in a row after which the run stops; 0 = never.
    int64_t max_skipped = 8;
  };
  // Slots start as their specs say. Throws invalid_argument (rl.engine_parameters) when parameters
  // do not fit the manifest, or do not lie on the mesh as it says.
  Engine(Setup setup, optim::UpdatePlan plan);

  const optim::UpdatePlan& plan() const { return plan_; }
  const models::CausalLm& model() const { return *setup_.model; }
  const nn::Structure& structure() const { return *setup_.structure; }
  const BatchShape& shape() const { return setup_.shape; }
  // Compiles the programs that a step needs, and reports their memory. `accumulating`: also the one
  // that adds to earlier micro-steps.
  std::vector<runtime::MemoryReport> prepare(bool accumulating);

  // Adds the batch's summed loss, gradients and weight to the accumulator; returns the metrics of
  // the loss (policy_metric_names(), or the number of tokens). `weight` is what the update divides
  // by, summed over the step's batches.
  std::vector<float> accumulate(const TokenBatch& batch, double weight, double temperature);
  // One optimiser step from the accumulator, which is then empty. Throws failed_precondition
  // (rl.empty_update) without a batch, aborted (optim.skipped_in_a_row).
  UpdateStats update();
  // Log-probabilities and entropies of the batch's scored tokens (padding included).
  struct Scores {
    std::vector<float> logprobs, entropies;
  };
  // Under `parameters` instead of the current ones of the same names; they are in the manifest's
  // order.
  Scores logprobs(const TokenBatch& batch, double temperature,
                  const runtime::ParameterTable* parameters = nullptr);

  // The current parameters under their manifest names; the version counts updates. Holding the
  // table while `update` runs is an error there (runtime.table_shared).
  const runtime::TablePtr& parameters() const { return table_; }
  const std::vector<runtime::Array>& slots() const { return slots_; }
  // The sums since the last update, as plan().accumulator() says; empty right after one.
  const std::vector<runtime::Array>& accumulator() const { return accumulator_; }
  const optim::StepCounts& counts() const { return counts_; }
  // Replaces the whole state (resume). Types are checked first; nothing changes on failure. An
  // empty `accumulator` is that of no micro-step.
  void restore(std::vector<runtime::Array> parameters, std::vector<runtime::Array> slots,
               const optim::StepCounts& counts, std::vector<runtime::Array> accumulator = {});
  // Replaces the parameters only, as for evaluating another step's.
  void restore_parameters(std::vector<runtime::Array> parameters);
  // Whether all trained parameters are. A step is applied when its gradient is finite; its rate may
  // still be one that no parameter survives.
  bool finite();
  // Forgets the micro-steps since the last update.
  void drop_sums() { accumulator_.clear(); }
  // Runs `action` with the weight average in the place of the trained parameters: parameters() is
  // a table of another version until it ends, and `action` must neither hold it nor train nor save.
  // The arrays of both change places, so that no memory is needed unless the average is laid out
  // otherwise (ZeRO). Afterwards, also when `action` throws, everything is as before. A plan that
  // keeps no average is an invariant.
  void with_average(const std::function<void()>& action);

 private:
  using ExecutorPtr = std::unique_ptr<runtime::Executor>;
  runtime::Executor& program(ExecutorPtr& slot, const char* name);
  std::unique_ptr<ir::Function> trace(const std::string& name) const;
  void check_types(const std::vector<runtime::Array>& parameters,
                   const std::vector<runtime::Array>& slots) const;
  std::vector<runtime::Array> upload(const TokenBatch& batch, double weight, double temperature);
  UpdateStats finish_update(const HostTensor& stats);
  bool averages_lie_as_parameters() const;
  void swap_parameters(uint64_t version, std::vector<runtime::Array*> others);

  Setup setup_;
  optim::UpdatePlan plan_;
  runtime::SpecPtr grid_, list_, terms_;  // how a batch's arrays lie
  std::vector<size_t> trained_;           // manifest slot of each trained parameter
  runtime::TablePtr table_;
  std::vector<runtime::Array> slots_;
  std::vector<runtime::Array> accumulator_;
  optim::StepCounts counts_;
  uint64_t version_ = 0;
  ExecutorPtr gradients_, accumulate_, update_, logprobs_, average_, finite_;
};

}  // namespace strata::rl
