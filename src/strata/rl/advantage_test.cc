#include "strata/rl/advantage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

std::string error_id(const std::function<void()>& run, const std::string& part) {
  try {
    run();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.id();
  }
  return "";
}

TEST(Advantage, EqualRewardsGiveExactlyZeroAndAreCounted) {
  // 0.1 * 3 summed and divided is not 0.1: the formula alone would leave a residue over eps.
  std::vector<double> rewards = {0.1, 0.1, 0.1, 0, 1, 1};
  Advantages a = group_advantages(rewards, 3, {.eps = 0});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(a.values[i], 0.0f);
  EXPECT_LT(a.values[3], 0.0f);
  EXPECT_EQ(a.stats.groups, 2);
  EXPECT_EQ(a.stats.zero_std_groups, 1);
}

TEST(Advantage, GroupsOfUnequalSizeDoNotMix) {
  std::vector<double> rewards = {0, 1, 10, 20, 30};
  std::vector<int64_t> sizes = {2, 3};
  Advantages a = group_advantages(rewards, sizes, {.std = AdvantageStd::none});
  EXPECT_EQ(a.values, (std::vector<float>{-0.5f, 0.5f, -10, 0, 10}));
  EXPECT_DOUBLE_EQ(a.stats.reward_mean, 12.2);
  EXPECT_EQ(a.stats.reward_max, 30);
  EXPECT_EQ(a.stats.min, -10);
  EXPECT_NEAR(a.stats.mean, 0, 1e-12);
}

TEST(Advantage, AFailedRewardCountsAsConfiguredAndIsReported) {
  std::vector<double> rewards = {kNan, 1, HUGE_VAL, 0};
  Advantages a = group_advantages(rewards, 2, {.std = AdvantageStd::none, .nan_value = -1});
  EXPECT_EQ(a.values, (std::vector<float>{-1, 1, -0.5f, 0.5f}));
  EXPECT_EQ(a.stats.replaced, 2);
  EXPECT_EQ(a.stats.reward_min, -1);
}

TEST(Advantage, UnderflowingDeviationWithoutEpsStaysFinite) {
  std::vector<double> rewards = {1e-300, 2e-300};
  Advantages a = group_advantages(rewards, 2, {.eps = 0});
  EXPECT_EQ(a.values, (std::vector<float>{0, 0}));
  EXPECT_EQ(a.stats.zero_std_groups, 1);
}

// Shifting the rewards changes nothing, and each group's advantages add up to 0.
TEST(Advantage, PropertyShiftInvariantAndCentred) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    auto size = static_cast<int64_t>(2 + random() % 7);
    std::vector<double> rewards, shifted;
    for (int64_t i = 0; i < 3 * size; ++i) {
      rewards.push_back(static_cast<double>(random() % 1000) / 100);
      shifted.push_back(rewards.back() + 64);
    }
    Advantages a = group_advantages(rewards, size), b = group_advantages(shifted, size);
    double sum = 0;
    for (size_t i = 0; i < rewards.size(); ++i) {
      EXPECT_NEAR(a.values[i], b.values[i], 1e-5) << "round " << round;
      sum += a.values[i];
    }
    EXPECT_NEAR(sum, 0, 1e-5) << "round " << round;
    EXPECT_LT(a.stats.max, std::sqrt(static_cast<double>(size)));
  }
}

TEST(Advantage, SolvedShares) {
  std::vector<uint8_t> solved = {1, 1, 0, 0, 0, 1, 0};
  std::vector<int64_t> sizes = {2, 2, 3};
  SolvedStats s = solved_stats(solved, sizes);
  EXPECT_DOUBLE_EQ(s.samples, 3.0 / 7);
  EXPECT_DOUBLE_EQ(s.all, 1.0 / 3);
  EXPECT_DOUBLE_EQ(s.none, 1.0 / 3);
}

TEST(AdvantageErrors, GroupOfOne) {
  std::vector<double> rewards = {1, 2, 3};
  std::vector<int64_t> sizes = {2, 1};
  EXPECT_EQ(error_id([&] { group_advantages(rewards, sizes); }, "group 1"), "rl.advantage_group");
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 1); }, "raise the group size"),
            "rl.advantage_group");
  EXPECT_EQ(error_id([&] { group_advantages({}, 2); }, "none"), "rl.advantage_group");
}

TEST(AdvantageErrors, SizesMustAddUp) {
  std::vector<double> rewards = {1, 2, 3, 4, 5};
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 2); }, "divides 5"), "rl.advantage_count");
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 0); }, "got 0"), "rl.advantage_count");
  std::vector<int64_t> many = {INT64_MAX, INT64_MAX, 2};
  EXPECT_EQ(error_id([&] { group_advantages(rewards, many); }, "add up to 5"),
            "rl.advantage_count");
  std::vector<std::string> ids = {"a"};
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 5, {}, ids); }, "5 sample ids"),
            "rl.advantage_count");
}

TEST(AdvantageErrors, ABadRewardNamesItsSample) {
  std::vector<double> rewards = {1, kNan};
  std::vector<std::string> ids = {"addition-3", "addition-4"};
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 2, {}, ids); }, "'addition-4'"),
            "rl.advantage_reward");
  rewards = {1e31, 0};
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 2); }, "sample 0"), "rl.advantage_reward");
}

TEST(AdvantageErrors, OptionsAreChecked) {
  std::vector<double> rewards = {1, 0};
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 2, {.eps = -1}); }, "eps -1"),
            "rl.advantage_eps");
  EXPECT_EQ(error_id([&] { group_advantages(rewards, 2, {.nan_value = kNan}); }, "nan_value"),
            "rl.advantage_eps");
  EXPECT_EQ(error_id([] { parse_advantage_std("popluation"); }, "'population'"),
            "rl.advantage_std");
}

}  // namespace
}  // namespace strata::rl
