#include "strata/rl/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"
#include "strata/rl/machine.h"
#include "strata/rl/phases.h"
#include "strata/rl/tensorboard.h"
#include "strata/testing/scratch_directory.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

template <class Run>
std::string error_id(Run run, const std::string& part, Code code) {
  try {
    run();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), code);
    return e.id();
  }
  return "";
}

// A directory of its own for each test.
class MetricsFiles : public ::testing::Test {
 protected:
  strata::testing::ScratchDirectory scratch_;
  const fs::path& dir_ = scratch_.path();
};

StepMetrics at_step(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.wall_time = 1700000000.5;
  m.add("reward/mean", 0.5 + static_cast<double>(step));
  return m;
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (char c : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<uint8_t>(c) >> 4];
    text += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return text;
}

TEST_F(MetricsFiles, JsonLinesAreThereAfterEachStep) {
  fs::path path = dir_ / "metrics.jsonl";
  JsonLinesSink sink(path, std::nullopt);
  StepMetrics m = at_step(0);
  m.add("loss/kl", std::numeric_limits<double>::quiet_NaN());
  sink.write(m);
  EXPECT_EQ(read_file(path),
            "{\"step\":0,\"time\":1700000000.5,\"reward/mean\":0.5,\"loss/kl\":null}\n");
  sink.write(at_step(1));
  std::vector<StepMetrics> back = read_json_lines(path);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_TRUE(std::isnan(*back[0].find("loss/kl")));
  EXPECT_EQ(back[1].step, 1);
  EXPECT_EQ(back[1].wall_time, 1700000000.5);
  EXPECT_EQ(back[1].find("reward/mean"), 1.5);
  EXPECT_FALSE(back[1].find("loss/kl").has_value());
}

TEST_F(MetricsFiles, AResumedRunDropsWhatItWillWriteAgain) {
  fs::path path = dir_ / "metrics.jsonl";
  {
    JsonLinesSink sink(path, std::nullopt);
    for (int64_t step = 0; step < 5; ++step) sink.write(at_step(step));
  }
  {
    AppendFile torn(path, AppendFile::Mode::extend);
    torn.append("{\"step\": 5, \"ti");
  }
  JsonLinesSink resumed(path, 3);
  resumed.write(at_step(3));
  std::vector<StepMetrics> back = read_json_lines(path);
  ASSERT_EQ(back.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(back[i].step, static_cast<int64_t>(i));
  // A run that died before its first line resumes as well.
  JsonLinesSink first(dir_ / "none.jsonl", 3);
  first.write(at_step(3));
  EXPECT_EQ(read_json_lines(dir_ / "none.jsonl").size(), 1u);
}

TEST_F(MetricsFiles, ASecondRunIntoOneFileIsRefused) {
  fs::path path = dir_ / "metrics.jsonl";
  JsonLinesSink sink(path, std::nullopt);
  EXPECT_EQ(error_id([&] { JsonLinesSink second(path, std::nullopt); }, "Resume that run",
                     Code::already_exists),
            "rl.metrics_exists");
}

TEST_F(MetricsFiles, BadLinesAreNamedByFileAndLine) {
  fs::path path = dir_ / "metrics.jsonl";
  for (const char* bad :
       {"{\"step\": 1, \"a\": \"text\"}", "[1]", "{\"a\": 1}", "{\"step\": 1.5}", "junk"}) {
    fs::remove(path);
    {
      AppendFile file(path, AppendFile::Mode::fresh);
      file.append("{\"step\": 0}\n" + std::string(bad) + "\n");
    }
    std::string before = read_file(path);
    EXPECT_EQ(error_id([&] { JsonLinesSink sink(path, 1); }, path.string() + ":2", Code::data_loss),
              "rl.metrics_line")
        << bad;
    EXPECT_EQ(read_file(path), before);
  }
}

TEST_F(MetricsFiles, FullDisksAndMissingDirectoriesAreErrors) {
  EXPECT_EQ(error_id([&] { AppendFile file(dir_ / "no" / "x", AppendFile::Mode::fresh); }, "no/x",
                     Code::not_found),
            "rl.metrics_open");
  AppendFile full("/dev/full", AppendFile::Mode::extend);
  EXPECT_EQ(error_id([&] { full.append("x"); }, "/dev/full", Code::resource_exhausted),
            "rl.metrics_write");
}

TEST(Metrics, LogWritesToAllSinksAndKeepsTheSteps) {
  class Counter : public MetricsSink {
   public:
    explicit Counter(int& count) : count_(count) {}
    void write(const StepMetrics&) override { ++count_; }

   private:
    int& count_;
  };
  int a = 0, b = 0;
  MetricsLog log;
  log.set_history({at_step(0)});
  log.add(std::make_unique<Counter>(a));
  log.add(std::make_unique<Counter>(b));
  log.write(at_step(1));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
  ASSERT_EQ(log.history().size(), 2u);
  for (const char* name : {"reward/mean", "", "step"}) {
    StepMetrics twice = at_step(2);
    twice.add(name, 1);
    EXPECT_EQ(error_id([&] { log.write(twice); }, "step 2", Code::invalid_argument),
              "rl.metrics_name");
  }
  EXPECT_EQ(a, 1);
}

// As a checkpoint keeps them.
TEST(Metrics, OfAStepThatIsStillToBeReported) {
  StepMetrics m{3, 1.5, {}};
  m.add("loss/train", 0.25);
  m.add("loss/kl", std::numeric_limits<double>::quiet_NaN());
  StepMetrics back = metrics_from(parse_json(to_json(m).dump(), "here"), "here");
  EXPECT_EQ(back.step, 3);
  EXPECT_EQ(back.wall_time, 1.5);
  EXPECT_EQ(back.find("loss/train"), 0.25);
  EXPECT_TRUE(std::isnan(*back.find("loss/kl")));
  Json broken = to_json(m);
  broken["scalars"][0] = {1, 2};
  EXPECT_EQ(error_id([&] { metrics_from(broken, "here"); }, "'scalars'", Code::data_loss),
            "rl.saved_metrics");
}

TEST(Metrics, BatchesBecomeScalars) {
  StepMetrics m = StepMetrics::now(4);
  EXPECT_GT(m.wall_time, 1.6e9);
  add_rewards(m, {.names = {"exact", "mine"},
                  .weights = {1, 1},
                  .values = {{1, 0, 0, 1}, {1, 1, 1, 0}},
                  .failures = {0, 1},
                  .totals = {2, 1, 1, 1}});
  std::vector<double> totals = {2, 1, 1, 1};
  add_advantages(m, group_advantages(totals, 2).stats);
  std::vector<uint8_t> right = {1, 0, 0, 0};
  std::vector<int64_t> sizes = {2, 2};
  add_solved(m, solved_stats(right, sizes));
  std::vector<CompletionMask> masks(2);
  masks[0].length = 3, masks[0].finished = true;
  masks[1].length = 8;
  add_completions(m, masks);
  add_completions(m, {});
  add_memory(m);
  EXPECT_EQ(m.find("reward/exact"), 0.5);
  EXPECT_EQ(m.find("reward/mine"), 0.75);
  EXPECT_EQ(m.find("reward_failures/mine"), 1);
  EXPECT_FALSE(m.find("reward_failures/exact").has_value());
  EXPECT_EQ(m.find("reward/mean"), 1.25);
  EXPECT_EQ(m.find("solved/zero_std"), 0.5);
  EXPECT_EQ(m.find("solved/samples"), 0.25);
  EXPECT_EQ(m.find("solved/none"), 0.5);
  EXPECT_EQ(m.find("completion/mean"), 5.5);
  EXPECT_EQ(m.find("completion/max"), 8);
  EXPECT_EQ(m.find("completion/truncated"), 0.5);
  EXPECT_GT(*m.find("memory/resident_gib"), 0);
  EXPECT_GE(*m.find("memory/peak_gib"), *m.find("memory/resident_gib"));
  MetricsLog log;
  log.write(m);  // no name comes twice
}

TEST(Phases, SecondsAndTokensByStepAndRun) {
  PhaseClock clock;
  { PhaseClock::Scope scope(clock, "sample"); }
  clock.add_seconds("sample", 2);
  clock.add_tokens("sample", 100);
  clock.add_seconds("train", 1);
  StepMetrics first;
  clock.report_step(first);
  EXPECT_NEAR(*first.find("seconds/sample"), 2, 0.5);
  EXPECT_NEAR(*first.find("tokens_per_second/sample"), 50, 10);
  EXPECT_EQ(first.find("seconds/train"), 1);
  EXPECT_FALSE(first.find("tokens_per_second/train").has_value());
  clock.add_seconds("train", 3);
  StepMetrics second;
  clock.report_step(second);
  EXPECT_EQ(second.find("seconds/train"), 3);
  EXPECT_FALSE(second.find("seconds/sample").has_value());
  ASSERT_EQ(clock.totals().size(), 2u);
  EXPECT_EQ(clock.totals()[0].name, "sample");
  EXPECT_EQ(clock.totals()[0].tokens, 100);
  EXPECT_EQ(clock.totals()[1].seconds, 4);
}

TEST(Phases, StepTextLeavesOutWhatIsNotReported) {
  StepMetrics m = at_step(11);
  EXPECT_EQ(step_text(m, 60), "step 12/60 | reward 11.500");
  m.add("solved/samples", 0.412);
  m.add("loss/kl", 0.00123);
  m.add("tokens_per_second/step", 812.4);
  EXPECT_EQ(step_text(m, 60), "step 12/60 | reward 11.500 | solved 41% | KL 0.0012 | 812 tok/s");
}

TEST(Phases, LiveLineLogsWhereThereIsNoTerminal) {
  ::testing::internal::CaptureStderr();
  {
    LiveLine line("grpo", 10, 12);
    line.write(at_step(10));
    line.write(at_step(11));
    line.write(at_step(12));
  }
  std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("strata: step 11/12 | reward 10.500 | ETA 0:00\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("strata: step 12/12 | reward 11.500\n"), std::string::npos) << text;
}

TEST(Phases, DurationText) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(3729), "1:02:09");
  EXPECT_EQ(duration_text(-5), "0:00");
  EXPECT_EQ(duration_text(std::nan("")), "0:00");
  EXPECT_EQ(duration_text(HUGE_VAL), "277777:46:40");
}

TEST(Machine, FactsNameMemoryAndKernel) {
  std::string names;
  for (const Fact& fact : machine_facts()) {
    EXPECT_FALSE(fact.value.empty()) << fact.name;
    names += fact.name + ";";
  }
  EXPECT_NE(names.find("Memory;"), std::string::npos) << names;
  EXPECT_NE(names.find("Kernel;"), std::string::npos) << names;
}

TEST(TensorBoard, Crc32cCheckValue) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
}

// Bytes that TensorBoard 2.20's own protobuf classes and record writer gave for the same messages.
TEST(TensorBoard, MessagesEqualTheirs) {
  StepMetrics m;
  m.step = 300;
  m.wall_time = 1700000000.5;
  m.add("reward/mean", 0.5);
  m.add("loss/kl", -1.25);
  EXPECT_EQ(hex(scalars_event(m)),
            "0900002040fc54d94110ac022a240a120a0b7265776172642f6d65616e150000003f0a0e0a076c6f73732f"
            "6b6c150000a0bf");
  EXPECT_EQ(hex(version_event(1700000000.5)), "0900002040fc54d9411a0d627261696e2e4576656e743a32");
  EXPECT_EQ(hex(session_start_event(1700000000.5, 7)), "0900002040fc54d94110073a020801");
  EXPECT_EQ(hex(tf_record("strata")), "06000000000000007369d537737472617461ac2b1a62");
}

TEST_F(MetricsFiles, TensorBoardFilesHoldRecordsAfterEachStep) {
  TensorBoardSink sink(dir_ / "tb", 3);
  std::string want = read_file(sink.path());
  EXPECT_NE(want.find("brain.Event:2"), std::string::npos);
  for (int64_t step = 3; step < 6; ++step) {
    sink.write(at_step(step));
    want += tf_record(scalars_event(at_step(step)));
    EXPECT_EQ(read_file(sink.path()), want);
  }
  // A second file of the same second and process gets a name of its own.
  TensorBoardSink other(dir_ / "tb", std::nullopt);
  EXPECT_NE(other.path(), sink.path());
  EXPECT_NE(other.path().filename().string().find("events.out.tfevents."), std::string::npos);
}

TEST_F(MetricsFiles, TensorBoardDirectoryThatCannotBeMade) {
  AppendFile file(dir_ / "file", AppendFile::Mode::fresh);
  EXPECT_EQ(error_id([&] { TensorBoardSink sink(dir_ / "file" / "tb", std::nullopt); }, "file/tb",
                     Code::not_found),
            "rl.metrics_open");
}

}  // namespace
}  // namespace strata::rl
