#include "strata/rl/task.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

std::string error_id(const TaskConfig& config, const std::string& part) {
  try {
    make_task(config);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.id();
  }
  return "";
}

std::vector<Example> all_of(const TaskSplits& s) {
  std::vector<Example> all = s.held_out;
  all.insert(all.end(), s.validation.begin(), s.validation.end());
  all.insert(all.end(), s.train.begin(), s.train.end());
  return all;
}

Example example(const std::string& task, const std::string& answer, Json meta = Json::object()) {
  return {.id = "x", .task = task, .messages = {}, .answer = answer, .meta = std::move(meta)};
}

std::set<std::pair<int64_t, int64_t>> pairs(const std::vector<Example>& part) {
  std::set<std::pair<int64_t, int64_t>> found;
  for (const Example& e : part) {
    int64_t a = e.meta.at("a"), b = e.meta.at("b");
    found.emplace(std::min(a, b), std::max(a, b));
  }
  return found;
}

TEST(Task, TheDemosAdditionHas441ProblemsInThreeDisjointParts) {
  TaskSplits s = make_task({});
  EXPECT_EQ(s.held_out.size(), 200u);
  EXPECT_EQ(s.validation.size(), 60u);
  EXPECT_GE(s.train.size(), 441u - 260u - 2u);
  auto held_out = pairs(s.held_out), validation = pairs(s.validation), train = pairs(s.train);
  for (const auto& p : held_out) EXPECT_TRUE(!validation.contains(p) && !train.contains(p));
  for (const auto& p : validation) EXPECT_FALSE(train.contains(p));
  for (const Example& e : all_of(s)) {
    int64_t a = e.meta.at("a"), b = e.meta.at("b");
    EXPECT_TRUE(a >= 0 && a <= 20 && b >= 0 && b <= 20);
    EXPECT_EQ(e.answer, std::to_string(a + b));
    ASSERT_EQ(e.messages.size(), 1u);
    EXPECT_EQ(e.messages[0].role, "user");
    EXPECT_EQ(e.messages[0].content,
              fmt::format("What is {} + {}? Answer with the number only.", a, b));
  }
}

TEST(Task, MirroredPairsNeverShareAReplyAcrossParts) {
  // 3 problems (0+0, 1+1 and the pair 0+1, 1+0 are 4): whatever the seed, sizes are exact.
  for (uint64_t seed = 0; seed < 50; ++seed) {
    TaskSplits s = make_task(
        {.seed = seed, .train = 1, .validation = 1, .held_out = 1, .options = {{"max", 1}}});
    EXPECT_EQ(s.held_out.size() + s.validation.size() + s.train.size(), 3u);
    std::set<std::string> sums;
    for (const Example& e : all_of(s)) sums.insert(e.answer);
    EXPECT_EQ(sums.size(), 3u) << "seed " << seed;
  }
}

TEST(Task, OneSeedOneOrder) {
  for (const std::string& name : task_names()) {
    TaskConfig config{.name = name, .seed = 7, .train = 30, .validation = 10, .held_out = 10};
    std::vector<Example> a = all_of(make_task(config)), b = all_of(make_task(config));
    config.seed = 8;
    std::vector<Example> c = all_of(make_task(config));
    size_t same = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].id, b[i].id);
      same += a[i].id == c[i].id ? 1 : 0;
    }
    EXPECT_LT(same, a.size() / 2) << name;
  }
}

// A golden: the draws are the same on every machine and compiler.
TEST(Task, TheFirstProblemsOfASeed) {
  EXPECT_EQ(make_task({.seed = 1}).held_out[0].id, "arithmetic:1+6");
  TaskConfig config{.name = "reversal", .seed = 1, .train = 1, .validation = 0, .held_out = 0};
  EXPECT_EQ(make_task(config).train[0].id, "reversal:gayik");
}

TEST(Task, EveryTaskJudgesItsOwnAnswerRightAndNothingRepeats) {
  for (const std::string& name : task_names()) {
    SCOPED_TRACE(name);
    TaskSplits s =
        make_task({.name = name, .seed = 3, .train = 80, .validation = 20, .held_out = 60});
    std::vector<Example> all = all_of(s);
    EXPECT_EQ(all.size(), 160u);
    std::set<std::string> ids;
    for (const Example& e : all) {
      EXPECT_TRUE(ids.insert(e.id).second) << e.id;
      EXPECT_EQ(e.id.rfind(name + ":", 0), 0u) << e.id;
      EXPECT_TRUE(is_right(e, e.answer)) << e.id << ": " << e.answer;
      EXPECT_TRUE(is_well_formed(e, e.answer)) << e.id << ": " << e.answer;
      EXPECT_EQ(partial_credit(e, e.answer), 1) << e.id;
      EXPECT_FALSE(is_right(e, "")) << e.id;
      EXPECT_FALSE(is_well_formed(e, "The answer is"));
      double credit = partial_credit(e, "12, 3");
      EXPECT_TRUE(credit >= 0 && credit <= 1);
    }
  }
}

TEST(Task, ArithmeticOptions) {
  TaskSplits s = make_task({.train = 50,
                            .validation = 5,
                            .held_out = 5,
                            .options = {{"min", -3}, {"max", 9}, {"ops", "-*"}}});
  std::set<std::string> ops;
  for (const Example& e : all_of(s)) {
    int64_t a = e.meta.at("a"), b = e.meta.at("b");
    std::string op = e.meta.at("op");
    ops.insert(op);
    EXPECT_EQ(e.answer, std::to_string(op == "-" ? a - b : a * b));
  }
  EXPECT_EQ(ops, (std::set<std::string>{"-", "*"}));
}

TEST(Task, LargeRangesAreDrawn) {
  TaskSplits s = make_task({.options = {{"min", 1000}, {"max", 999'999'999}}});
  EXPECT_EQ(s.train.size(), 1000u);
  EXPECT_EQ(s.held_out.size(), 200u);
}

TEST(Task, JudgesArithmeticReplies) {
  Example e = example("arithmetic", "23");
  EXPECT_TRUE(is_right(e, "The answer is 23."));
  EXPECT_FALSE(is_right(e, "23 or 24"));
  EXPECT_FALSE(is_well_formed(e, "The answer is 23."));
  EXPECT_EQ(partial_credit(e, "20 + 3 = 13"), 0.5);
  EXPECT_EQ(partial_credit(e, "no idea"), 0);
}

TEST(Task, JudgesListsAndTexts) {
  Example list = example("sorting", "1, 2, 3");
  EXPECT_TRUE(is_right(list, "[1,2,3]"));
  EXPECT_DOUBLE_EQ(partial_credit(list, "1, 3, 2"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(partial_credit(list, "1, 2, 3, 4, 5, 6"), 0.5);
  EXPECT_FALSE(is_well_formed(list, "1 2 3"));
  Example number = example("number_format", "1,234");
  EXPECT_FALSE(is_right(number, "1234"));
  EXPECT_TRUE(is_well_formed(number, "1234"));
  Example own = example("", " 42 ");
  EXPECT_TRUE(is_right(own, "42\n"));
  EXPECT_FALSE(is_right(own, "42."));
  EXPECT_FALSE(is_well_formed(own, "  "));
}

TEST(Task, JudgesCountdown) {
  Example e = example("countdown", "(3 + 7) * 4",
                      {{"numbers", std::vector<int64_t>{3, 4, 7}}, {"target", 40}});
  EXPECT_TRUE(is_right(e, "4 * (7 + 3)"));
  EXPECT_TRUE(is_right(e, "4 * (7 + 3) = 40"));
  EXPECT_EQ(partial_credit(e, "4 + 7 + 3"), 0.5);
  EXPECT_EQ(partial_credit(e, "40"), 0.25);
  EXPECT_EQ(partial_credit(e, "10 * 4"), 0.25);
  EXPECT_EQ(partial_credit(e, "ten times four"), 0);
}

TEST(TaskErrors, UnknownNamesGiveTheNearest) {
  EXPECT_EQ(error_id({.name = "arithmetics"}, "Did you mean 'arithmetic'"), "rl.task_name");
  EXPECT_EQ(error_id({.name = ""}, "got"), "rl.task_name");
  EXPECT_EQ(error_id({.options = {{"maxx", 3}}}, "Did you mean 'max'"), "rl.task_option");
}

TEST(TaskErrors, OptionsOutOfRange) {
  EXPECT_EQ(error_id({.options = {{"min", 5}, {"max", 4}}}, "5 to 1000000000"), "rl.task_option");
  EXPECT_EQ(error_id({.options = {{"ops", "+/"}}}, "some of + - *"), "rl.task_option");
  EXPECT_EQ(error_id({.options = Json::array()}, "an object"), "rl.task_option");
  EXPECT_EQ(error_id({.name = "countdown", .options = {{"count", 9}}}, "2 to 8"), "rl.task_option");
}

TEST(TaskErrors, TooFewProblemsSaysHowMany) {
  EXPECT_EQ(error_id({.options = {{"max", 4}}}, "25 that these options allow"), "rl.task_size");
  EXPECT_EQ(error_id({.name = "reversal", .options = {{"length", 1}}}, "26 that"), "rl.task_size");
  EXPECT_EQ(error_id({.validation = -1}, "validation -1"), "rl.task_size");
  EXPECT_EQ(error_id({.train = INT64_MAX}, "sizes from 0"), "rl.task_size");
}

}  // namespace
}  // namespace strata::rl
