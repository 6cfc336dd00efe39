#include "strata/rl/reward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace strata::rl {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

template <class Run>
std::string error_id(Run run, const std::string& part, Code code = Code::invalid_argument) {
  try {
    run();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), code);
    return e.id();
  }
  return "";
}

class RewardTest : public ::testing::Test {
 protected:
  RewardTest() {
    example_.id = "arithmetic:20+3";
    example_.task = "arithmetic";
    example_.answer = "23";
  }
  RewardSample sample(std::string_view completion, bool finished = true, int64_t tokens = 3) {
    std::string id = "arithmetic:20+3#" + std::to_string(next_++);
    return {.id = id,
            .example = &example_,
            .completion = completion,
            .finished = finished,
            .tokens = tokens};
  }
  // The built-in reward's values for replies that finished.
  std::vector<double> values(const RewardConfig& config, const std::vector<RewardSample>& samples) {
    std::vector<RewardConfig> configs = {config};
    return RewardSet(configs).score(samples).values.at(0);
  }

  Example example_;
  int next_ = 0;
};

using Values = std::vector<double>;

TEST_F(RewardTest, Exact) {
  std::vector<RewardSample> s = {sample("23"), sample("It is 23."), sample("23", false),
                                 sample("24")};
  EXPECT_EQ(values({.kind = "exact"}, s), (Values{1, 1, 0, 0}));
  RewardConfig loose{.kind = "exact", .options = {{"require_finished", false}}};
  EXPECT_EQ(values(loose, s), (Values{1, 1, 1, 0}));
}

TEST_F(RewardTest, ShapedIsHalfDigitsHalfSolved) {
  std::vector<RewardSample> s = {sample("23"),   sample("23", false), sample("13"),
                                 sample("none"), sample("23\n13"),    sample("99", false)};
  EXPECT_EQ(values({.kind = "shaped"}, s), (Values{1, 0.5, 0.25, 0, 0.25, 0}));
}

TEST_F(RewardTest, FormatAsksForTheFormOnly) {
  std::vector<RewardSample> s = {sample("99"), sample("It is 23.")};
  EXPECT_EQ(values({.kind = "format"}, s), (Values{1, 0}));
}

TEST_F(RewardTest, LengthAndOverlong) {
  std::vector<RewardSample> s = {sample("", true, 0), sample("", true, 4), sample("", true, 7),
                                 sample("", true, 10), sample("", false, 99)};
  EXPECT_EQ(values({.kind = "length", .options = {{"free", 4}, {"max", 10}}}, s),
            (Values{1, 1, 0.5, 0, 0}));
  EXPECT_EQ(values({.kind = "overlong", .options = {{"max_tokens", 10}, {"window", 6}}}, s),
            (Values{0, 0, -0.5, -1, -1}));
}

TEST_F(RewardTest, SeveralAreWeightedAndReportedByName) {
  std::vector<RewardConfig> configs = {
      {.kind = "exact", .weight = 2},
      {.kind = "format", .name = "form", .weight = 0.5},
  };
  RewardSet set(configs);
  set.add(make_reward([](const RewardSample& s) { return static_cast<double>(s.tokens); }),
          {.name = "tokens", .weight = -0.1});
  std::vector<RewardSample> s = {sample("23"), sample("no 23", true, 5)};
  RewardTable table = set.score(s);
  EXPECT_EQ(table.names, (std::vector<std::string>{"exact", "form", "tokens"}));
  EXPECT_EQ(table.values, (std::vector<Values>{{1, 1}, {1, 0}, {3, 5}}));
  EXPECT_DOUBLE_EQ(table.totals[0], 2 + 0.5 - 0.3);
  EXPECT_DOUBLE_EQ(table.totals[1], 2 - 0.5);
  EXPECT_EQ(table.failures, (std::vector<int64_t>{0, 0, 0}));
}

TEST_F(RewardTest, SolvedNeedsRightAndFinished) {
  std::vector<RewardSample> s = {sample("23"), sample("23", false), sample("4")};
  EXPECT_EQ(solved(s), (std::vector<uint8_t>{1, 0, 0}));
}

TEST_F(RewardTest, AnEmptyBatchIsFine) {
  std::vector<RewardConfig> configs = {{.kind = "exact"}};
  EXPECT_TRUE(RewardSet(configs).score({}).totals.empty());
}

TEST_F(RewardTest, FailuresCountAsConfiguredAndAreCounted) {
  RewardSet set;
  set.add(make_reward([](const RewardSample& s) -> double {
            if (s.completion == "throw") throw std::runtime_error("out of sorts");
            return s.completion == "nan" ? kNan : s.completion == "inf" ? HUGE_VAL : 1;
          }),
          {.name = "mine", .weight = 2, .on_failure = -0.25});
  std::vector<RewardSample> s = {sample("nan"), sample("ok"), sample("throw"), sample("inf")};
  RewardTable table = set.score(s);
  EXPECT_EQ(table.values[0], (Values{-0.25, 1, -0.25, -0.25}));
  EXPECT_EQ(table.totals, (Values{-0.5, 2, -0.5, -0.5}));
  EXPECT_EQ(table.failures[0], 3);
}

TEST_F(RewardTest, FailuresStopTheRunAndNameTheSample) {
  std::vector<RewardSample> s = {sample("fine"), sample("bad")};
  RewardSet nan;
  nan.add(make_reward([](const RewardSample& x) { return x.completion == "bad" ? kNan : 1; }),
          {.name = "mine"});
  EXPECT_EQ(error_id([&] { nan.score(s); }, "'mine', sample 'arithmetic:20+3#1'", Code::aborted),
            "rl.reward_failed");
  RewardSet thrown;
  thrown.add(make_reward([](const RewardSample&) -> double { throw std::runtime_error("gone"); }),
             {.name = "mine"});
  EXPECT_EQ(error_id([&] { thrown.score(s); }, "gone", Code::aborted), "rl.reward_failed");
}

// A reward of the user's own that throws as a whole, or loses a value.
class Faulty : public Reward {
 public:
  std::vector<RewardValue> score(std::span<const RewardSample> samples) override {
    if (samples.size() == 1) throw std::runtime_error("");
    return std::vector<RewardValue>(samples.size() - 1);
  }
};

TEST_F(RewardTest, WholeBatchFailuresAreFailuresOfEverySample) {
  std::vector<RewardSample> s = {sample("a"), sample("b"), sample("c")};
  RewardSet strict;
  strict.add(std::make_unique<Faulty>(), {.name = "faulty"});
  EXPECT_EQ(error_id([&] { strict.score(s); }, "2 values for 3 samples", Code::aborted),
            "rl.reward_failed");
  RewardSet lenient;
  lenient.add(std::make_unique<Faulty>(), {.name = "faulty", .on_failure = 0});
  EXPECT_EQ(lenient.score(s).failures[0], 3);
  // An exception without a text is a failure all the same.
  EXPECT_EQ(lenient.score(std::span(s).first(1)).failures[0], 1);
}

TEST_F(RewardTest, ErrorsOfConfiguration) {
  EXPECT_EQ(error_id([] { make_reward(RewardConfig{.kind = "exat"}); }, "Did you mean 'exact'"),
            "rl.reward_kind");
  auto with = [](const std::string& kind, Json options) {
    return [=] { make_reward(RewardConfig{.kind = kind, .options = options}); };
  };
  EXPECT_EQ(error_id(with("length", {{"maxx", 3}}), "Did you mean 'max'"), "rl.reward_option");
  EXPECT_EQ(error_id(with("shaped", {{"a", 3}}), "no options"), "rl.reward_option");
  EXPECT_EQ(error_id(with("length", {{"free", 3}, {"max", 3}}), "free < max"), "rl.reward_option");
  EXPECT_EQ(error_id(with("length", Json::array()), "object of options"), "rl.reward_option");
  EXPECT_EQ(error_id(with("program", {{"command", "sh"}}), "list of strings"), "rl.reward_option");
  EXPECT_EQ(error_id(with("overlong", {{"max_tokens", 0}}), "max_tokens > 0"), "rl.mask_penalty");
  EXPECT_EQ(error_id(with("length", Json::object()), "max", Code::not_found), "json.missing_key");
}

TEST_F(RewardTest, ErrorsOfSets) {
  EXPECT_EQ(error_id([] { RewardSet().score({}); }, "none", Code::failed_precondition),
            "rl.reward_none");
  std::vector<RewardConfig> twice = {{.kind = "exact"}, {.kind = "exact"}};
  EXPECT_EQ(error_id([&] { RewardSet set(twice); }, "'exact'"), "rl.reward_name");
  std::vector<RewardConfig> reserved = {{.kind = "exact", .name = "mean"}};
  EXPECT_EQ(error_id([&] { RewardSet set(reserved); }, "'mean'"), "rl.reward_name");
  std::vector<RewardConfig> heavy = {{.kind = "exact", .weight = HUGE_VAL}};
  EXPECT_EQ(error_id([&] { RewardSet set(heavy); }, "weight inf"), "rl.reward_weight");
}

}  // namespace
}  // namespace strata::rl
