// Rewards: numbers for completions. Several, each with a name and a weight, make one reward for a
// sample; each is reported on its own. A reward that fails, throws or is not a finite number stops
// the run and names the sample, or counts as a configured value: it never silently becomes 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/rl/task.h"

namespace strata::rl {

// One completion to be judged. `example` and `completion` must outlive the call.
struct RewardSample {
  // Unique in its batch, such as "arithmetic:3+17#2".
  std::string id;
  const Example* example = nullptr;
  // The text of the model's own tokens, without the stop token. Any bytes.
  std::string_view completion;
  // It ended by itself (CompletionMask::finished).
  bool finished = false;
  // CompletionMask::length.
  int64_t tokens = 0;
};

// A value, or what went wrong when `failure` is not empty.
struct RewardValue {
  double value = 0;
  std::string failure = {};
  Code code = Code::aborted;
};

// The interface of a reward. Calls come from one thread at a time.
class Reward {
 public:
  virtual ~Reward() = default;
  // One value a sample, in their order. May throw: then every sample of the batch has failed.
  virtual std::vector<RewardValue> score(std::span<const RewardSample> samples) = 0;
};

// A reward from a function of one sample; NaN is a failure.
std::unique_ptr<Reward> make_reward(std::function<double(const RewardSample&)> function);

// Built-in rewards by kind:
//   exact      1 when is_right, and it finished if options.require_finished (true); else 0
//   shaped     1/2 partial_credit + 1/2 (is_right and finished): the demo's
//   format     1 when is_well_formed, else 0
//   length     1 up to options.free tokens (0), falling in a straight line to 0 at options.max
//   overlong   overlong_penalty with options.max_tokens and options.window (0), in [-1, 0]
//   program    an executable; see reward_program.h; options.command, options.deadline_seconds (60)
struct RewardConfig {
  std::string kind;
  // Under which it is reported; the kind when empty.
  std::string name = {};
  double weight = 1;
  // What a failure counts as. Empty: a failure stops the run.
  std::optional<double> on_failure = {};
  Json options = Json::object();
};

std::vector<std::string> reward_kinds();

// Throws invalid_argument: rl.reward_kind (names the nearest), rl.reward_option (an unknown option
// or one out of range); json.* errors for options of a wrong type; process.* errors when a program
// cannot be started.
std::unique_ptr<Reward> make_reward(const RewardConfig& config);

// What a batch earned. values[k][i] is reward k of sample i.
struct RewardTable {
  std::vector<std::string> names;
  std::vector<double> weights;
  std::vector<std::vector<double>> values;
  // Samples at which reward k failed and counted as its on_failure.
  std::vector<int64_t> failures;
  // Weighted sums, one a sample: what group_advantages takes.
  std::vector<double> totals;
};

class RewardSet {
 public:
  RewardSet() = default;
  // Throws as make_reward and add.
  explicit RewardSet(std::span<const RewardConfig> configs);

  // Adds a reward; only name, weight and on_failure of `config` are read. Throws invalid_argument
  // (rl.reward_name: empty, taken, or
  // "mean" or "std"; rl.reward_weight: weight or on_failure not finite).
  void add(std::unique_ptr<Reward> reward, const RewardConfig& config);

  // Throws failed_precondition (rl.reward_none) when there is no reward; rl.reward_failed, with
  // RewardValue::code, when one fails without on_failure: names reward, sample and reason.
  RewardTable score(std::span<const RewardSample> samples);

 private:
  struct Entry {
    std::string name;
    double weight = 1;
    std::optional<double> on_failure;
    std::unique_ptr<Reward> reward;
  };
  void score_one(Entry& entry, std::span<const RewardSample> samples, RewardTable& table);

  std::vector<Entry> entries_;
};

// Which samples are solved: right, and ended by themselves. What accuracy counts.
std::vector<uint8_t> solved(std::span<const RewardSample> samples);

}  // namespace strata::rl
