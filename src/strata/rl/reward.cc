#include "strata/rl/reward.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/rl/mask.h"
#include "strata/rl/reward_program.h"

namespace strata::rl {
namespace {

// Larger values would make group_advantages refuse the sum.
constexpr double kLargestReward = 1e30;

class FunctionReward : public Reward {
 public:
  explicit FunctionReward(std::function<double(const RewardSample&)> function)
      : function_(std::move(function)) {}

  std::vector<RewardValue> score(std::span<const RewardSample> samples) override {
    std::vector<RewardValue> values;
    for (const RewardSample& sample : samples) values.push_back(score_one(sample));
    return values;
  }

 private:
  RewardValue score_one(const RewardSample& sample) const {
    try {
      return {.value = function_(sample)};
    } catch (const Error& e) {
      return {.failure = e.what(), .code = e.code()};
    } catch (const std::exception& e) {
      return {.failure = e.what()};
    }
  }

  std::function<double(const RewardSample&)> function_;
};

std::string where_of(const RewardConfig& config) { return "reward '" + config.kind + "'"; }

std::unique_ptr<Reward> make_exact(const RewardConfig& config) {
  bool require_finished = get_bool_or(config.options, "require_finished", true, where_of(config));
  return make_reward([=](const RewardSample& s) {
    return is_right(*s.example, s.completion) && (s.finished || !require_finished) ? 1.0 : 0.0;
  });
}

std::unique_ptr<Reward> make_shaped(const RewardConfig&) {
  return make_reward([](const RewardSample& s) {
    bool solved = s.finished && is_right(*s.example, s.completion);
    return 0.5 * partial_credit(*s.example, s.completion) + (solved ? 0.5 : 0.0);
  });
}

std::unique_ptr<Reward> make_format(const RewardConfig&) {
  return make_reward(
      [](const RewardSample& s) { return is_well_formed(*s.example, s.completion) ? 1.0 : 0.0; });
}

std::unique_ptr<Reward> make_length(const RewardConfig& config) {
  int64_t free = get_int_or(config.options, "free", 0, where_of(config));
  int64_t max = get_int(config.options, "max", where_of(config));
  require(free >= 0 && max > free, {.id = "rl.reward_option",
                                    .where = where_of(config),
                                    .expected = "0 <= free < max",
                                    .got = fmt::format("free {}, max {}", free, max)});
  return make_reward([=](const RewardSample& s) {
    double past = static_cast<double>(std::clamp(s.tokens, free, max) - free);
    return 1 - past / static_cast<double>(max - free);
  });
}

std::unique_ptr<Reward> make_overlong(const RewardConfig& config) {
  OverlongPenalty penalty{.max_tokens = get_int(config.options, "max_tokens", where_of(config)),
                          .window = get_int_or(config.options, "window", 0, where_of(config))};
  check(penalty);
  return make_reward(
      [=](const RewardSample& s) { return overlong_penalty(s.tokens, s.finished, penalty); });
}

std::unique_ptr<Reward> make_program(const RewardConfig& config) {
  ProgramRewardOptions options;
  const Json& command = config.options.contains("command") ? config.options["command"] : Json();
  bool fine = command.is_array() && !command.empty();
  for (const Json& word : command) fine = fine && word.is_string();
  require(fine, {.id = "rl.reward_option",
                 .where = where_of(config) + ", option 'command'",
                 .expected = "a list of strings, the program first",
                 .got = command.dump(-1, ' ', true, Json::error_handler_t::replace)});
  options.command = command.get<std::vector<std::string>>();
  options.deadline_seconds =
      get_double_or(config.options, "deadline_seconds", options.deadline_seconds, where_of(config));
  return std::make_unique<ProgramReward>(options);
}

struct Kind {
  std::string_view name;
  std::string_view options;
  std::unique_ptr<Reward> (*make)(const RewardConfig&);
};
constexpr std::array<Kind, 6> kKinds = {{
    {"exact", "require_finished", make_exact},
    {"shaped", "", make_shaped},
    {"format", "", make_format},
    {"length", "free max", make_length},
    {"overlong", "max_tokens window", make_overlong},
    {"program", "command deadline_seconds", make_program},
}};

void check_options(const Kind& kind, const RewardConfig& config) {
  require(config.options.is_object(), {.id = "rl.reward_option",
                                       .where = where_of(config),
                                       .expected = "an object of options",
                                       .got = config.options.type_name()});
  std::vector<std::string> known = split(kind.options, ' ');
  for (const auto& item : config.options.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    bool none = kind.options.empty();
    fail({.id = "rl.reward_option",
          .where = where_of(config),
          .expected = none ? "no options" : "one of " + join(known, ", "),
          .got = "'" + item.key() + "'",
          .cure = none ? "" : "Did you mean '" + nearest(item.key(), known) + "'?"});
  }
}

// The batch's values, with every way to fail turned into failures of samples.
std::vector<RewardValue> score_safely(Reward& reward, std::span<const RewardSample> samples) {
  RewardValue failure;
  std::vector<RewardValue> values;
  try {
    values = reward.score(samples);
    if (values.size() == samples.size()) return values;
    failure.failure =
        fmt::format("it gave {} values for {} samples", values.size(), samples.size());
  } catch (const Error& e) {
    failure.failure = e.what();
    failure.code = e.code();
  } catch (const std::exception& e) {
    failure.failure = e.what();
  }
  if (failure.failure.empty()) failure.failure = "an exception without a text";
  values.assign(samples.size(), failure);
  return values;
}

}  // namespace

std::unique_ptr<Reward> make_reward(std::function<double(const RewardSample&)> function) {
  return std::make_unique<FunctionReward>(std::move(function));
}

std::vector<std::string> reward_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::unique_ptr<Reward> make_reward(const RewardConfig& config) {
  for (const Kind& kind : kKinds) {
    if (kind.name != config.kind) continue;
    check_options(kind, config);
    return kind.make(config);
  }
  std::vector<std::string> known = reward_kinds();
  fail({.id = "rl.reward_kind",
        .where = "reward",
        .expected = "one of " + join(known, ", "),
        .got = "'" + config.kind + "'",
        .cure = "Did you mean '" + nearest(config.kind, known) + "'?"});
}

RewardSet::RewardSet(std::span<const RewardConfig> configs) {
  for (const RewardConfig& config : configs) {
    RewardConfig named = config;
    if (named.name.empty()) named.name = named.kind;
    add(make_reward(config), named);
  }
}

void RewardSet::add(std::unique_ptr<Reward> reward, const RewardConfig& config) {
  bool taken = std::any_of(entries_.begin(), entries_.end(),
                           [&](const Entry& e) { return e.name == config.name; });
  // reward/mean and reward/std are metrics of the sum.
  taken = taken || config.name == "mean" || config.name == "std";
  require(!config.name.empty() && !taken, {.id = "rl.reward_name",
                                           .where = "rewards",
                                           .expected = "a name of its own for each reward",
                                           .got = "'" + config.name + "'",
                                           .cure = "Set its `name`"});
  require(std::isfinite(config.weight) && std::isfinite(config.on_failure.value_or(0)),
          {.id = "rl.reward_weight",
           .where = "reward '" + config.name + "'",
           .expected = "a finite weight and a finite on_failure",
           .got = fmt::format("weight {}, on_failure {}", config.weight,
                              config.on_failure.value_or(0))});
  entries_.push_back({config.name, config.weight, config.on_failure, std::move(reward)});
}

void RewardSet::score_one(Entry& entry, std::span<const RewardSample> samples, RewardTable& table) {
  std::vector<RewardValue> values = score_safely(*entry.reward, samples);
  std::vector<double>& column = table.values.emplace_back();
  int64_t& failures = table.failures.emplace_back();
  for (size_t i = 0; i < values.size(); ++i) {
    RewardValue& v = values[i];
    if (v.failure.empty() && !(std::fabs(v.value) <= kLargestReward)) {
      v.failure = fmt::format("it returned {}", v.value);
    }
    if (!v.failure.empty()) {
      std::string where = fmt::format("reward '{}', sample '{}'", entry.name, samples[i].id);
      if (!entry.on_failure) {
        fail({.id = "rl.reward_failed",
              .where = where,
              .expected = "a finite number",
              .got = v.failure,
              .cure = "Mend the reward, or set its `on_failure` to what a failure counts as",
              .code = v.code});
      }
      if (failures++ == 0) {
        log_warning(
            fmt::format("{} failed and counts as {}: {}", where, *entry.on_failure, v.failure));
      }
      v.value = *entry.on_failure;
    }
    column.push_back(v.value);
    table.totals[i] += entry.weight * v.value;
  }
  table.names.push_back(entry.name);
  table.weights.push_back(entry.weight);
}

RewardTable RewardSet::score(std::span<const RewardSample> samples) {
  require(!entries_.empty(), {.id = "rl.reward_none",
                              .where = "rewards",
                              .expected = "at least one reward",
                              .got = "none",
                              .code = Code::failed_precondition});
  RewardTable table;
  table.totals.assign(samples.size(), 0);
  for (Entry& entry : entries_) score_one(entry, samples, table);
  return table;
}

std::vector<uint8_t> solved(std::span<const RewardSample> samples) {
  std::vector<uint8_t> flags;
  for (const RewardSample& s : samples) {
    flags.push_back(s.finished && is_right(*s.example, s.completion) ? 1 : 0);
  }
  return flags;
}

}  // namespace strata::rl
