// Whole training runs on a small random model with a real tokenizer: they learn, a resumed run is
// the uninterrupted one bit for bit, nothing compiles after the first step, and the export loads.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "end_to_end/runs_for_test.h"
#include "strata/runtime/memory_report.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

TEST_F(Runs, SftLearnsAndItsExportLoads) {
  write_data();
  SftSummary s = sft("a", {"sft.steps=12"});
  EXPECT_EQ(s.steps, 12);
  EXPECT_NEAR(s.first_loss, 10.8, 1.0);
  EXPECT_LT(s.last_loss, s.first_loss - 2);
  ASSERT_TRUE(s.eval_loss.has_value());
  auto exported = weights::open_source(dir_ / "a/export");
  auto source = weights::open_source(dir_ / "model");
  EXPECT_EQ(exported->tensors().size(), source->tensors().size());
  for (const char* file : {"config.json", "tokenizer.json", "chat_template.jinja"}) {
    EXPECT_TRUE(fs::exists(dir_ / "a/export" / file)) << file;
  }
}

TEST_F(Runs, ResumedSftIsTheUninterruptedRun) {
  write_data();
  sft("whole", {});
  SftSummary first = sft("parts", {}, 2);
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.steps, 2);
  sft("parts", {"run.resume=true"});
  EXPECT_EQ(state("parts", 6), state("whole", 6));
}

TEST_F(Runs, ResumedGrpoIsTheUninterruptedRun) {
  GrpoSummary whole = grpo("whole", {});
  EXPECT_EQ(whole.steps, 4);
  EXPECT_TRUE(fs::exists(dir_ / "whole/report.html"));
  EXPECT_TRUE(fs::exists(dir_ / "whole/summary.json"));
  grpo("parts", {}, 2);
  EXPECT_NE(state("parts", 2), state("whole", 4));
  grpo("parts", {"run.resume=true"});
  EXPECT_EQ(state("parts", 4), state("whole", 4));
}

TEST_F(Runs, NothingCompilesAfterTheFirstStep) {
  grpo("a", {"grpo.steps=1"});
  int64_t before = compiler_->counters().compiles;
  grpo("b", {"grpo.steps=4", "optimizer.lr=2e-4", "grpo.temperature=0.7", "optimizer.clip_norm=0.5",
             "optimizer.weight_decay=0.1"});
  EXPECT_EQ(compiler_->counters().compiles, before);
}

// Trainer and sampler agree about the log-probabilities of what was sampled, at any temperature.
TEST_F(Runs, SamplerAndTrainerAgree) {
  grpo("a", {"grpo.temperature=0.6"});
  for (const StepMetrics& m : metrics("a")) {
    ASSERT_TRUE(m.find("mismatch/max").has_value());
    EXPECT_LE(*m.find("mismatch/max"), 1e-4);
  }
}

// Case I2 in a run: 24 steps, each with a rollout, which reads the new parameters, and a save of
// 18 MiB. A copy of the parameters kept by either would be 6 MiB a step. The binary's allocator
// keeps what was freed, so what the process holds is the most that it has needed so far; the median
// of the slopes between any two steps passes over a late peak.
TEST_F(Runs, MemoryDoesNotGrowWithSteps) {
  std::vector<double> mib;
  between_steps_ = [&] {
    mib.push_back(static_cast<double>(runtime::process_memory().held()) / (1 << 20));
  };
  grpo("a", {"grpo.steps=24", "run.save_every=1", "run.save_mode=stream", "run.keep_last=1",
             "task.held_out=0"});
  ASSERT_EQ(mib.size(), 24u);
  EXPECT_TRUE(metrics("a")[23].find("loss/grad_norm").has_value());
  std::string seen;
  std::vector<double> slopes;
  for (size_t i = 8; i < mib.size(); ++i) {
    for (size_t j = 8; j < i; ++j) slopes.push_back((mib[i] - mib[j]) / static_cast<double>(i - j));
    seen += std::to_string(mib[i]) + " ";
  }
  auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  EXPECT_LT(*middle, 0.3) << "MiB a step: " << seen;
}

// The id of the error that `action` ends with, and nothing written below `output`.
std::string refused(const fs::path& output, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_FALSE(fs::exists(output / "metrics.jsonl"));
    return e.id();
  }
  return "nothing was refused";
}

TEST_F(Runs, WhatDoesNotFitIsRefusedBeforeAnythingIsWritten) {
  write_data();
  EXPECT_EQ(refused(dir_ / "a", [&] { grpo("a", {"grpo.max_new_tokens=600"}); }), "rl.context");
  EXPECT_EQ(refused(dir_ / "a", [&] { grpo("a", {"train.row_tokens=16"}); }), "rl.row_tokens");
  EXPECT_EQ(refused(dir_ / "a", [&] { grpo("a", {"train.scored_tokens=5"}); }), "rl.row_tokens");
  EXPECT_EQ(refused(dir_ / "b", [&] { sft("b", {"train.row_tokens=1024"}); }), "rl.sft_context");
  fs::remove(dir_ / "model/chat_template.jinja");
  EXPECT_EQ(refused(dir_ / "c", [&] { grpo("c", {}); }), "rl.no_chat_template");
}

// Saving in the background while training goes on, or waiting, writes the same states.
TEST_F(Runs, BothSavingModesWriteTheSame) {
  write_data();
  sft("a", {"sft.steps=4", "run.save_every=1", "run.keep_last=4"});
  sft("b", {"sft.steps=4", "run.save_every=1", "run.keep_last=4", "run.save_mode=stream"});
  for (int64_t step = 1; step <= 4; ++step) EXPECT_EQ(state("a", step), state("b", step)) << step;
  EXPECT_NE(state("a", 1), state("a", 2));
  Json run = read_json(dir_ / "a/checkpoints/step-00000004/manifest.json")["run"];
  EXPECT_EQ(run["extra"]["config"]["run"]["save_mode"], "snapshot");
  EXPECT_TRUE(run["loader"].contains("stream")) << run["loader"].dump();
  grpo("c", {"grpo.steps=3", "run.save_every=1", "run.keep_last=1", "run.keep_every=2"});
  EXPECT_FALSE(fs::exists(dir_ / "c/checkpoints/step-00000001"));
  EXPECT_TRUE(fs::exists(dir_ / "c/checkpoints/step-00000002"));
  EXPECT_TRUE(fs::exists(dir_ / "c/checkpoints/step-00000003"));
}

// A checkpoint that lacks a counter is damaged: an error, never a fresh start.
TEST_F(Runs, ADamagedCheckpointIsNoFreshStart) {
  write_data();
  sft("a", {"sft.steps=1"});
  fs::path manifest = dir_ / "a/checkpoints/step-00000001/manifest.json";
  Json json = read_json(manifest);
  const Json good = json;
  auto expect = [&](const char* id) {
    std::ofstream(manifest) << json.dump();
    json = good;
    try {
      sft("a", {"sft.steps=2", "run.resume=true"});
      ADD_FAILURE() << "no error " << id;
    } catch (const Error& e) {
      EXPECT_EQ(e.id(), id);
      EXPECT_EQ(e.code(), Code::data_loss);
    }
  };
  json["run"]["counts"].erase("count");
  expect("rl.saved_counts");
  json["run"]["extra"].erase("state");
  expect("rl.saved_state");
}

TEST_F(Runs, TheDirectoryOfAnotherRunIsLeftAlone) {
  grpo("a", {"grpo.steps=1"});
  std::string before = state("a", 1);
  try {
    grpo("a", {"grpo.steps=2"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "rl.run_exists");
  }
  EXPECT_EQ(state("a", 1), before);
}

}  // namespace
}  // namespace strata::rl
