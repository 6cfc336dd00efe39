#include "strata/rl/advantage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::rl {
namespace {

// Squares of larger rewards would leave the range in which the float results stay finite.
constexpr double kLargestReward = 1e30;

void check_sizes(size_t samples, std::span<const int64_t> sizes) {
  require(!sizes.empty(), {.id = "rl.advantage_group",
                           .where = "group advantages",
                           .expected = "at least one group",
                           .got = "none"});
  size_t sum = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] < 2) {
      fail({.id = "rl.advantage_group",
            .where = fmt::format("group advantages, group {}", k),
            .expected = "at least 2 completions of one prompt",
            .got = fmt::format("{}", sizes[k]),
            .cure = "A completion alone is always its own mean: raise the group size"});
    }
    sum += std::min(static_cast<size_t>(sizes[k]), samples + 1);
    if (sum > samples) break;
  }
  require(sum == samples, {.id = "rl.advantage_count",
                           .where = "group advantages",
                           .expected = fmt::format("group sizes that add up to {}", samples),
                           .got = list_text(sizes.first(std::min<size_t>(sizes.size(), 16)))});
}

void check_options(const AdvantageOptions& options) {
  bool fine = std::isfinite(options.eps) && options.eps >= 0 &&
              std::fabs(options.nan_value.value_or(0)) <= kLargestReward;
  require(fine,
          {.id = "rl.advantage_eps",
           .where = "group advantages",
           .expected = "a finite eps >= 0 and a finite nan_value",
           .got = fmt::format("eps {}, nan_value {}", options.eps, options.nan_value.value_or(0))});
}

bool usable(double reward) { return std::fabs(reward) <= kLargestReward; }

std::vector<double> checked_rewards(std::span<const double> rewards,
                                    const AdvantageOptions& options,
                                    std::span<const std::string> ids, int64_t& replaced) {
  std::vector<double> checked(rewards.begin(), rewards.end());
  for (size_t i = 0; i < checked.size(); ++i) {
    if (usable(checked[i])) continue;
    if (!options.nan_value) {
      fail({.id = "rl.advantage_reward",
            .where = ids.empty() ? fmt::format("sample {}", i) : "sample '" + ids[i] + "'",
            .expected = "a finite reward of at most 1e30",
            .got = fmt::format("{}", checked[i]),
            .cure = "Mend the reward, or configure what such a reward counts as"});
    }
    checked[i] = *options.nan_value;
    ++replaced;
  }
  return checked;
}

struct Moments {
  double mean = 0, squares = 0, min = 0, max = 0;
};

// Two passes: the mean, then the sum of the squared distances to it.
template <class T>
Moments moments(std::span<const T> values) {
  Moments m;
  if (values.empty()) return m;
  m.min = m.max = values[0];
  for (T v : values) {
    m.mean += v;
    m.min = std::min<double>(m.min, v);
    m.max = std::max<double>(m.max, v);
  }
  m.mean /= static_cast<double>(values.size());
  for (T v : values) m.squares += (v - m.mean) * (v - m.mean);
  return m;
}

double divisor(const Moments& m, size_t count, const AdvantageOptions& options) {
  if (options.std == AdvantageStd::none) return 1;
  auto n = static_cast<double>(count);
  double variance = m.squares / (options.std == AdvantageStd::sample ? n - 1 : n);
  return std::sqrt(variance) + options.eps;
}

// Appends one group's advantages; false when its rewards are all equal.
bool append_group(std::span<const double> rewards, const AdvantageOptions& options,
                  std::vector<float>& out) {
  Moments m = moments(rewards);
  double d = divisor(m, rewards.size(), options);
  // The deviation of rewards that differ can still underflow to 0; without eps that is no divisor.
  bool teaches = m.min != m.max && d > 0;
  for (double r : rewards) out.push_back(teaches ? static_cast<float>((r - m.mean) / d) : 0.0f);
  return teaches;
}

}  // namespace

AdvantageStd parse_advantage_std(std::string_view name) {
  const std::array<std::string, 3> known = {"sample", "population", "none"};
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) return static_cast<AdvantageStd>(i);
  }
  fail({.id = "rl.advantage_std",
        .where = "advantage std",
        .expected = "one of " + join(known, ", "),
        .got = "'" + std::string(name) + "'",
        .cure = "Did you mean '" + nearest(name, known) + "'?"});
}

Advantages group_advantages(std::span<const double> rewards, std::span<const int64_t> sizes,
                            const AdvantageOptions& options, std::span<const std::string> ids) {
  check_sizes(rewards.size(), sizes);
  check_options(options);
  require(ids.empty() || ids.size() == rewards.size(),
          {.id = "rl.advantage_count",
           .where = "group advantages",
           .expected = fmt::format("{} sample ids", rewards.size()),
           .got = fmt::format("{}", ids.size())});
  Advantages result;
  AdvantageStats& stats = result.stats;
  std::vector<double> checked = checked_rewards(rewards, options, ids, stats.replaced);
  std::span<const double> rest(checked);
  for (int64_t size : sizes) {
    auto n = static_cast<size_t>(size);
    if (!append_group(rest.first(n), options, result.values)) ++stats.zero_std_groups;
    rest = rest.subspan(n);
  }
  stats.groups = static_cast<int64_t>(sizes.size());
  auto n = static_cast<double>(checked.size());
  Moments r = moments<double>(checked), a = moments<float>(result.values);
  stats.reward_mean = r.mean, stats.reward_std = std::sqrt(r.squares / n);
  stats.reward_min = r.min, stats.reward_max = r.max;
  stats.mean = a.mean, stats.std = std::sqrt(a.squares / n);
  stats.min = a.min, stats.max = a.max;
  return result;
}

Advantages group_advantages(std::span<const double> rewards, int64_t group_size,
                            const AdvantageOptions& options, std::span<const std::string> ids) {
  auto n = static_cast<int64_t>(rewards.size());
  bool divides = group_size >= 1 && n % group_size == 0;
  require(divides, {.id = "rl.advantage_count",
                    .where = "group advantages",
                    .expected = fmt::format("a group size that divides {} samples", n),
                    .got = fmt::format("{}", group_size)});
  std::vector<int64_t> sizes(static_cast<size_t>(n / group_size), group_size);
  return group_advantages(rewards, sizes, options, ids);
}

SolvedStats solved_stats(std::span<const uint8_t> solved, std::span<const int64_t> sizes) {
  check_sizes(solved.size(), sizes);
  SolvedStats stats;
  std::span<const uint8_t> rest = solved;
  for (int64_t size : sizes) {
    auto group = rest.first(static_cast<size_t>(size));
    rest = rest.subspan(static_cast<size_t>(size));
    auto right = static_cast<int64_t>(group.size()) - std::count(group.begin(), group.end(), 0);
    stats.samples += static_cast<double>(right);
    stats.all += right == size ? 1 : 0;
    stats.none += right == 0 ? 1 : 0;
  }
  stats.samples /= static_cast<double>(solved.size());
  stats.all /= static_cast<double>(sizes.size());
  stats.none /= static_cast<double>(sizes.size());
  return stats;
}

}  // namespace strata::rl
