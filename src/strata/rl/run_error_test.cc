// What a run refuses before it starts: configuration, problems, output directory, model.
#include <gtest/gtest.h>

#include <filesystem>

#include "strata/base/file.h"
#include "strata/rl/engine_for_test.h"
#include "strata/rl/grpo.h"
#include "strata/rl/prompts.h"
#include "strata/rl/run_files.h"
#include "strata/rl/score.h"
#include "strata/rl/sft.h"
#include "strata/testing/errors.h"
#include "strata/testing/scratch_directory.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using Scratch = testing::ScratchDirectory;

const std::string kGrpo = R"(
[model]
path = "m"
[run]
output = "o"
[grpo]
steps = 3
[optimizer]
lr = 1e-5
)";

GrpoConfig grpo(std::vector<std::string> overrides) {
  Config c = Config::from_text(kGrpo, "grpo.toml", overrides);
  return read_grpo_config(c);
}

TEST(GrpoConfig, HasTheDocumentedDefaults) {
  GrpoConfig g = grpo({});
  EXPECT_EQ(g.group_size, 8);
  EXPECT_EQ(g.step.iterations, 1);
  EXPECT_FALSE(g.train.policy.read_old);
  EXPECT_FALSE(g.step.use_reference);
  EXPECT_EQ(g.step.advantage.std, AdvantageStd::sample);
  EXPECT_EQ(g.rewards.front().kind, "shaped");
  EXPECT_EQ(g.effective.at("optimizer").at("weight_decay").get<double>(), 1e-4);
}

TEST(GrpoConfig, FollowsItsKeys) {
  GrpoConfig g = grpo({"grpo.iterations=2", "grpo.beta=0.1", "grpo.ratio=sequence",
                       "grpo.clip_high=0.28", "train.compute=bf16", "task.options.max=9"});
  EXPECT_TRUE(g.train.policy.read_old);
  EXPECT_TRUE(g.step.use_reference);
  EXPECT_EQ(g.train.policy.ratio, RatioLevel::sequence);
  EXPECT_EQ(g.train.policy.clip.high, 0.28);
  EXPECT_EQ(g.train.compute, DType::bf16);
  EXPECT_EQ(g.task.options.at("max"), 9);
}

TEST(GrpoConfig, RefusesUnknownKeysAndWrongTypes) {
  expect_error(Code::invalid_argument, "config.unknown_key", "group_size",
               [] { grpo({"grpo.groupsize=4"}); });
  expect_error(Code::invalid_argument, "config.type", "grpo.steps", [] { grpo({"grpo.steps=x"}); });
  expect_error(Code::invalid_argument, "ops.remat_policy", "dots",
               [] { grpo({"layers.remat=some"}); });
  expect_error(Code::invalid_argument, "nn.scan_mode", "force",
               [] { grpo({"layers.scan=maybe"}); });
}

TEST(GrpoStepOptions, AreChecked) {
  GrpoOptions o;
  o.temperature = 0;
  expect_error(Code::invalid_argument, "rl.grpo_options", "temperature", [&] { check(o); });
}

TEST(Prompts, BadLinesNameFileAndLine) {
  Scratch dir;
  fs::path bad = dir.write("bad.jsonl", "{\"prompt\": \"a\"}\n{\"messages\": []}\n");
  expect_error(Code::data_loss, "rl.prompt_line", "bad.jsonl:2", [&] { read_prompts(bad); });
  fs::path empty = dir.write("empty.jsonl", "\n");
  expect_error(Code::invalid_argument, "rl.prompts_empty", "empty.jsonl",
               [&] { read_prompts(empty); });
}

TEST(Prompts, VisitEveryExampleOnceAnEpochWhateverTheStepSize) {
  std::vector<Example> examples(7);
  for (size_t i = 0; i < examples.size(); ++i) examples[i].id = std::to_string(i);
  std::vector<std::string> by_three, by_one;
  for (int64_t s = 0; s < 7; ++s) {
    for (const Example* e : prompts_of_step(examples, s, 3, 5)) by_three.push_back(e->id);
  }
  for (int64_t s = 0; s < 21; ++s) by_one.push_back(prompts_of_step(examples, s, 1, 5)[0]->id);
  EXPECT_EQ(by_three, by_one);
  std::set<std::string> first(by_one.begin(), by_one.begin() + 7);
  EXPECT_EQ(first.size(), 7u);
  EXPECT_NE(std::vector<std::string>(by_one.begin(), by_one.begin() + 7),
            std::vector<std::string>(by_one.begin() + 7, by_one.begin() + 14));
}

TEST(RunFiles, AnotherRunsDirectoryIsRefused) {
  Scratch dir;
  RunConfig run;
  run.output = dir.path();
  dir.write("metrics.jsonl", "");  // of a run that did no step
  check_output(run);
  dir.write("metrics.jsonl", "{}\n");
  expect_error(Code::already_exists, "rl.run_exists", "--resume", [&] { check_output(run); });
  run.resume = true;
  check_output(run);
}

TEST(GrpoConfig, RefusesAnEmptyOutputAndEndlessSteps) {
  expect_error(Code::invalid_argument, "rl.run_output", "an empty text",
               [] { grpo({"run.output="}); });
  expect_error(Code::invalid_argument, "config.range", "65536",
               [] { grpo({"grpo.prompts_per_step=100000000"}); });
}

TEST(RunFiles, AProgramBeyondTheMachinesMemoryIsRefused) {
  runtime::MemoryReport small, large;
  small.program = "update";
  large.program = "gradients";
  large.temporaries = int64_t{9} << 30;
  report_memory({small, large}, "cpu", uint64_t{16} << 30);
  report_memory({small, large}, "cuda", uint64_t{8} << 30);
  expect_error(Code::resource_exhausted, "rl.memory", "gradients: ", [&] {
    report_memory({small, large}, "cpu", uint64_t{8} << 30);
  });
  // The copy that a snapshot takes counts too, and is in the report.
  ::testing::internal::CaptureStderr();
  report_memory({large}, "cpu", uint64_t{16} << 30, uint64_t{6} << 30);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("saving: 6.00 GiB"), std::string::npos);
  expect_error(Code::resource_exhausted, "rl.memory", "gradients: ", [&] {
    report_memory({large}, "cpu", uint64_t{16} << 30, uint64_t{8} << 30);
  });
}

TEST(RunFiles, NothingOfTheUsersIsReplacedByAnExport) {
  Scratch dir;
  RunConfig run;
  run.output = dir / "run";
  expect_error(Code::already_exists, "rl.export_exists", dir.path().string(),
               [&] { check_output(run, dir.path()); });
  check_output(run, dir / "new");
}

TEST(RunFiles, AnOutputDirectoryThatCannotBeMade) {
  Scratch dir;
  RunConfig run;
  run.output = dir.write("file", "") / "run";
  expect_error(Code::not_found, "checkpoint.directory", run.output.string(),
               [&] { open_output(run); });
  run.output = dir / "run";
  auto first = open_output(run);
  expect_error(Code::failed_precondition, "file.locked", run.output.string(),
               [&] { open_output(run); });
}

TEST(Session, RefusesATokenizerThatDoesNotFit) {
  Scratch dir;
  fs::copy(oracle_path("qwen3_tied") / "config.json", dir.path() / "config.json");
  fs::copy(fs::path(STRATA_SOURCE_DIR) / "tests/testdata/data/smollm2_tokenizer.json",
           dir.path() / "tokenizer.json");
  expect_error(Code::invalid_argument, "rl.tokenizer_fit", "49152 ids",
               [&] { open_session({.model = dir.path()}, nullptr); });
}

TEST(Score, RefusesShapesThatCannotBe) {
  auto model = models::build_model(oracle_path("qwen3_tied"));
  nn::Structure structure(*model, {}, model->ties());
  expect_error(Code::invalid_argument, "rl.score_shape", "two tokens", [&] {
    score_function(*model, structure, {1, 1});
  });
  expect_error(Code::out_of_range, "rl.score_context", "256", [&] {
    score_function(*model, structure, {1, 257});
  });
}

TEST(Engine, RefusesParametersOfAnotherModel) {
  TinyTrainer t("qwen3_tied", {1, 8, 8}, {});
  expect_error(Code::invalid_argument, "rl.engine_parameters", "engine",
               [&] { t.engine->restore_parameters({}); });
}

}  // namespace
}  // namespace strata::rl
