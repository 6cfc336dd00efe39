// What a step reports, and where it goes: JSON lines, TensorBoard (tensorboard.h), and the history
// that the report draws.
//
// Names are paths with one slash; the part before it groups the charts:
//   reward/mean, /std, /<name of a reward>   reward_failures/<name>
//   solved/samples, /all, /none, /zero_std   advantage/mean, /std, /min, /max
//   completion/mean, /max, /truncated        tokens and share of the samples
//   loss/kl, /entropy, /clip_low, /clip_high, /ratio_max, /grad_norm, /lr
//   mismatch/mean, /max, /kl                 sampler against trainer log-probs
//   seconds/<phase>, tokens_per_second/<phase>, memory/resident_gib, /peak_gib, sync/version_lag
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/rl/advantage.h"
#include "strata/rl/append_file.h"
#include "strata/rl/mask.h"
#include "strata/rl/reward.h"

namespace strata::rl {

struct Scalar {
  std::string name;
  double value = 0;
};

struct StepMetrics {
  int64_t step = 0;
  // Seconds since 1970; `now` fills it in.
  double wall_time = 0;
  std::vector<Scalar> scalars;

  static StepMetrics now(int64_t step);
  void add(std::string_view name, double value);
  std::optional<double> find(std::string_view name) const;
};

// {"step", "time", "scalars": [[NAME, VALUE], …]}, for a checkpoint; null stands for what is not
// finite, and becomes NaN. Throws as get_int and get_double, naming `where`; data_loss
// (rl.saved_metrics) for scalars that are none.
Json to_json(const StepMetrics& metrics);
StepMetrics metrics_from(const Json& json, const std::string& where);

// One a reward, and how often it failed where it did.
void add_rewards(StepMetrics& metrics, const RewardTable& table);
void add_advantages(StepMetrics& metrics, const AdvantageStats& stats);
void add_solved(StepMetrics& metrics, const SolvedStats& stats);
// Lengths, and the share that was cut. Nothing when there are no completions.
void add_completions(StepMetrics& metrics, std::span<const CompletionMask> completions);
// Resident memory of this process now and at its highest.
void add_memory(StepMetrics& metrics);

// Where metrics go. Calls come from one thread at a time.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  // What is written is in the kernel's hands when this returns.
  virtual void write(const StepMetrics& metrics) = 0;
};

// One line a step: {"step": 3, "time": 1.7e9, "reward/mean": 0.5, ...}. A value that is not finite
// is written as null.
class JsonLinesSink : public MetricsSink {
 public:
  // With `resume_at`, the file of the run that is resumed: lines of that step and later ones are
  // dropped first, and so is a last line that was cut short. Without it the file must not exist.
  // Throws as AppendFile, or data_loss (rl.metrics_line) naming file:line for a line that is no
  // metrics line.
  JsonLinesSink(std::filesystem::path path, std::optional<int64_t> resume_at);
  void write(const StepMetrics& metrics) override;

 private:
  AppendFile file_;
};

// The line that JsonLinesSink writes, without its break.
std::string json_line(const StepMetrics& metrics);

// All steps of a file that JsonLinesSink wrote, such as for the report of a resumed run. null
// becomes NaN. A last line that was cut short is left out. Throws as read_file, or rl.metrics_line.
std::vector<StepMetrics> read_json_lines(const std::filesystem::path& path);

// Hands each step to every sink and keeps it.
class MetricsLog {
 public:
  void add(std::unique_ptr<MetricsSink> sink) { sinks_.push_back(std::move(sink)); }
  // Throws invalid_argument (rl.metrics_name) when a name is empty or comes twice, before any sink
  // has seen the step; and whatever a sink throws.
  void write(StepMetrics metrics);
  const std::vector<StepMetrics>& history() const { return history_; }
  // What earlier runs wrote (read_json_lines): goes to no sink.
  void set_history(std::vector<StepMetrics> history) { history_ = std::move(history); }

 private:
  std::vector<std::unique_ptr<MetricsSink>> sinks_;
  std::vector<StepMetrics> history_;
};

}  // namespace strata::rl
