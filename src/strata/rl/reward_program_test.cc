#include "strata/rl/reward_program.h"

#include <gtest/gtest.h>

namespace strata::rl {
namespace {

// Shell words that read a question into $l, its id into $id and its "tokens" into $n.
const std::string kRead =
    "while IFS= read -r l; do "
    "id=$(printf '%s' \"$l\" | sed 's/^{\"id\":\"\\([^\"]*\\)\".*/\\1/'); "
    "n=$(printf '%s' \"$l\" | sed 's/.*\"tokens\":\\([0-9]*\\).*/\\1/'); ";

class ProgramRewardTest : public ::testing::Test {
 protected:
  ProgramRewardTest() {
    example_.id = "own:1";
    example_.messages = {{"user", "Say \"hi\"\n"}};
    example_.answer = "hi";
    for (int i = 0; i < 3; ++i) {
      samples_.push_back({.id = "own:1#" + std::to_string(i),
                          .example = &example_,
                          .completion = "hi\xff\n",
                          .finished = true,
                          .tokens = i + 1});
    }
  }

  ProgramReward shell(const std::string& body, double deadline = 20) {
    return ProgramReward({.command = {"sh", "-c", body}, .deadline_seconds = deadline});
  }
  std::vector<RewardValue> score(const std::string& body, double deadline = 20) {
    return shell(body, deadline).score(samples_);
  }

  Example example_;
  std::vector<RewardSample> samples_;
};

TEST_F(ProgramRewardTest, AnswersEachQuestionAndLivesOn) {
  ProgramReward reward = shell(
      "c=0; " + kRead + "c=$((c+1)); echo \"{\\\"id\\\":\\\"$id\\\",\\\"reward\\\":$n.$c}\"; done");
  std::vector<RewardValue> first = reward.score(samples_), second = reward.score(samples_);
  const double want[2][3] = {{1.1, 2.2, 3.3}, {1.4, 2.5, 3.6}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(first[i].failure, "");
    EXPECT_EQ(first[i].value, want[0][i]);
    EXPECT_EQ(second[i].value, want[1][i]);
  }
}

TEST_F(ProgramRewardTest, AnswersMayComeInAnyOrderAtTheLastQuestion) {
  std::vector<RewardValue> v =
      score("a=''; " + kRead +
            "a=\"{\\\"id\\\":\\\"$id\\\",\\\"reward\\\":$n}\n$a\"; "
            "case \"$l\" in *'\"last\":true'*) printf '%s' \"$a\"; a='';; esac; done");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(v[i].failure, "");
    EXPECT_EQ(v[i].value, static_cast<double>(i + 1));
  }
}

// The question itself comes back inside an error text, which is then compared field by field.
TEST_F(ProgramRewardTest, TheQuestionIsAsDocumented) {
  std::string body =
      "IFS= read -r l; q=$(printf '%s' \"$l\" | sed 's/[\\\\\"]/\\\\&/g'); "
      "printf '{\"id\":\"own:1#0\",\"error\":\"%s\"}\\n' \"$q\"; cat > /dev/null";
  ProgramReward reward = shell(body);
  std::vector<RewardValue> v = reward.score(std::span(samples_).first(1));
  const std::string said = "program 'sh' says: ";
  ASSERT_EQ(v[0].failure.rfind(said, 0), 0u) << v[0].failure;
  Json q = parse_json(v[0].failure.substr(said.size()), "question");
  EXPECT_EQ(q, Json({{"id", "own:1#0"},
                     {"task", ""},
                     {"messages", {{{"role", "user"}, {"content", "Say \"hi\"\n"}}}},
                     {"answer", "hi"},
                     {"meta", Json::object()},
                     {"completion", "hi\xef\xbf\xbd\n"},
                     {"finished", true},
                     {"tokens", 1},
                     {"last", true}}));
}

TEST_F(ProgramRewardTest, NanNullAndErrorFailOneSampleOnly) {
  std::vector<RewardValue> v =
      score(kRead +
            "case $n in 1) r='\"reward\": NaN';; 2) r='\"reward\": null';; "
            "*) r='\"reward\": 4';; esac; echo \"{\\\"id\\\": "
            "\\\"$id\\\", $r}\"; done");
  EXPECT_NE(v[0].failure.find("no number"), std::string::npos) << v[0].failure;
  EXPECT_NE(v[1].failure.find("no number"), std::string::npos) << v[1].failure;
  EXPECT_EQ(v[2].failure, "");
  EXPECT_EQ(v[2].value, 4);
}

TEST_F(ProgramRewardTest, ADeadProgramFailsWhatItHadNotAnsweredAndIsStartedAnew) {
  ProgramReward reward = shell(
      kRead + "[ $n = 2 ] && exit 3; echo \"{\\\"id\\\":\\\"$id\\\",\\\"reward\\\":7}\"; done");
  for (int round = 0; round < 2; ++round) {
    std::vector<RewardValue> v = reward.score(samples_);
    EXPECT_EQ(v[0].failure, "") << "round " << round;
    EXPECT_EQ(v[0].value, 7);
    for (size_t i : {size_t{1}, size_t{2}}) {
      EXPECT_EQ(v[i].code, Code::unavailable);
      EXPECT_NE(v[i].failure.find("status 3"), std::string::npos) << v[i].failure;
    }
  }
}

TEST_F(ProgramRewardTest, AHungProgramIsEndedAtTheDeadline) {
  Stopwatch clock;
  std::vector<RewardValue> v = score("exec sleep 600", 0.3);
  EXPECT_LT(clock.seconds(), 10);
  for (const RewardValue& value : v) {
    EXPECT_EQ(value.code, Code::deadline_exceeded);
    EXPECT_FALSE(value.failure.empty());
  }
}

TEST_F(ProgramRewardTest, JunkIsShown) {
  for (const char* junk : {"hello", "[1]", "{\"reward\": 1}", "{\"id\": 5, \"reward\": 1}",
                           "{\"id\": \"other\", \"reward\": 1}"}) {
    std::vector<RewardValue> v = score("echo '" + std::string(junk) + "'; exec cat > /dev/null");
    for (const RewardValue& value : v) {
      EXPECT_EQ(value.code, Code::data_loss);
      EXPECT_NE(value.failure.find("rl.reward_program_answer"), std::string::npos);
      EXPECT_NE(value.failure.find("standard error"), std::string::npos) << value.failure;
    }
  }
}

TEST_F(ProgramRewardTest, AnsweringTwiceIsJunk) {
  std::vector<RewardValue> v = score(
      kRead + "for k in 1 2; do echo \"{\\\"id\\\":\\\"$id\\\",\\\"reward\\\":1}\"; done; done");
  EXPECT_EQ(v[0].failure, "");
  EXPECT_EQ(v[1].code, Code::data_loss);
}

TEST_F(ProgramRewardTest, StopsARunThroughTheSet) {
  std::vector<RewardConfig> configs = {
      {.kind = "program", .options = {{"command", {"sh", "-c", "read l; exit 1"}}}}};
  RewardSet set(configs);
  try {
    set.score(samples_);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "rl.reward_failed");
    EXPECT_EQ(e.code(), Code::unavailable);
    EXPECT_NE(e.message().find("sample 'own:1#0'"), std::string::npos) << e.message();
  }
}

TEST_F(ProgramRewardTest, SampleIdsMustDiffer) {
  samples_[1].id = samples_[0].id;
  std::vector<RewardValue> v = score("exec cat > /dev/null");
  EXPECT_EQ(v[0].code, Code::internal);
  EXPECT_NE(v[0].failure.find("rl.reward_program_ids"), std::string::npos);
}

TEST_F(ProgramRewardTest, WrongCommandsAndDeadlinesAreKnownAtOnce) {
  try {
    ProgramReward reward({.command = {"/no/such/program"}});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::not_found);
  }
  for (double seconds : {0.0, -1.0, 1e9}) {
    try {
      ProgramReward reward({.command = {"cat"}, .deadline_seconds = seconds});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.id(), "rl.reward_program_deadline");
    }
  }
}

}  // namespace
}  // namespace strata::rl
