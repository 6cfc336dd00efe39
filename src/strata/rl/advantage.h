// Group advantages: how much better a completion was than the others of its prompt.
//   A_i = (r_i - mean) / (std + eps)
// with the mean and the standard deviation of its group (GRPO, arXiv 2402.03300, eq. 3), or without
// the division (Dr. GRPO, arXiv 2503.20783). Evaluated in double, returned in float.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::rl {

// `sample` divides the squares by G - 1 (torch.std, TRL), `population` by G, `none` divides by
// nothing and leaves eps out.
enum class AdvantageStd { sample, population, none };

// "sample", "population", "none". Throws invalid_argument (rl.advantage_std) naming the nearest.
AdvantageStd parse_advantage_std(std::string_view name);

struct AdvantageOptions {
  AdvantageStd std = AdvantageStd::sample;
  double eps = 1e-4;
  // What a reward that is not finite counts as. Empty: such a reward stops the run.
  std::optional<double> nan_value = {};
};

struct AdvantageStats {
  int64_t groups = 0;
  // Groups whose rewards are all equal: their advantages are exactly 0 and teach nothing.
  int64_t zero_std_groups = 0;
  // Rewards that were not finite and were replaced by nan_value.
  int64_t replaced = 0;
  // Of the rewards (after replacement) and of the advantages, over all samples. The standard
  // deviations are the population's.
  double reward_mean = 0, reward_std = 0, reward_min = 0, reward_max = 0;
  double mean = 0, std = 0, min = 0, max = 0;
};

struct Advantages {
  // One a sample, in the order of the rewards.
  std::vector<float> values;
  AdvantageStats stats;
};

// Advantages of groups that lie one after the other: group k has sizes[k] rewards. Groups may
// differ in size (stale samples may have been dropped). `ids`, when given, names the samples in
// errors. Equal rewards are found by comparing the rewards, not their deviation, so that rounding
// leaves no residue.
// Throws invalid_argument: rl.advantage_group (a group of fewer than 2; no groups),
// rl.advantage_count (the sizes do not add up to the rewards, or ids and rewards differ in number),
// rl.advantage_eps (eps or nan_value not finite, eps negative), rl.advantage_reward (a reward that
// is NaN, infinite or beyond 1e30 in magnitude, without nan_value).
Advantages group_advantages(std::span<const double> rewards, std::span<const int64_t> sizes,
                            const AdvantageOptions& options = {},
                            std::span<const std::string> ids = {});

// The same for groups of one size. Throws rl.advantage_count unless it divides the rewards.
Advantages group_advantages(std::span<const double> rewards, int64_t group_size,
                            const AdvantageOptions& options = {},
                            std::span<const std::string> ids = {});

// How the groups of a step fared: shares of the groups in [0, 1], and of the samples.
struct SolvedStats {
  double samples = 0;
  double all = 0;
  double none = 0;
};

// `solved[i]` says whether sample i solved its problem. Throws as group_advantages does for sizes.
SolvedStats solved_stats(std::span<const uint8_t> solved, std::span<const int64_t> sizes);

}  // namespace strata::rl
