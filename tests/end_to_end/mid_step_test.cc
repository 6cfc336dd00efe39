// Runs that stop in the middle of a step: between two micro-steps, two iterations or two sampled
// tokens, by interruption, by the clock or by an error. Resumed, they are the uninterrupted run,
// bit for bit, down to the position in the data and the metrics.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "end_to_end/runs_for_test.h"
#include "strata/base/file.h"
#include "strata/rl/grpo_work.h"
#include "strata/testing/errors.h"
#include "strata/testing/executor.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// Everything that a run reports but times and what the process holds.
std::string results(const std::vector<StepMetrics>& all) {
  std::string out;
  for (const StepMetrics& m : all) {
    for (const Scalar& s : m.scalars) {
      bool kept = s.name.starts_with("loss/") || s.name.starts_with("train/") ||
                  s.name.starts_with("reward/") || s.name.starts_with("completion/") ||
                  s.name.starts_with("advantage/") || s.name.starts_with("mismatch/");
      if (kept) out += std::to_string(m.step) + " " + s.name + " " + Json(s.value).dump() + "\n";
    }
  }
  return out;
}

class MidStep : public Runs {
 protected:
  // Most of these runs are of few programs, which are compiled once.
  void SetUp() override {
    static std::shared_ptr<runtime::Compiler> shared;
    Runs::SetUp();
    if (!shared) shared = compiler_;
    compiler_ = shared;
  }
  const Names kFourMicroSteps{"train.accumulate=4", "sft.steps=4", "train.rows=1"};
  Names four(Names more = {}) const {
    more.insert(more.end(), kFourMicroSteps.begin(), kFourMicroSteps.end());
    return more;
  }
  std::string loader(const std::string& output, const std::string& name) const {
    return read_json(dir_ / output / "checkpoints" / name / "manifest.json")["run"]["loader"]
        .dump();
  }
  void expect_same_runs(const std::string& a, const std::string& b, int64_t step) const {
    EXPECT_EQ(state(a, step), state(b, step));
    EXPECT_EQ(results(metrics(a)), results(metrics(b)));
    EXPECT_EQ(metrics(a).size(), static_cast<size_t>(step));
  }
};

// Every third line of 12 conversations an epoch, so that steps end in the middle of epochs.
TEST_F(MidStep, SftStoppedAfterAnyMicroStepGoesOn) {
  write_data();
  sft("whole", four());
  EXPECT_EQ(metrics("whole").size(), 4u);
  // Asked three times a step: before its second, third and fourth micro-step.
  for (int64_t asked : {0, 1, 2, 4, 8, 11}) {
    std::string run = "parts" + std::to_string(asked);
    SftSummary first = sft(run, four(), asked, StopPoint::micro_step);
    EXPECT_TRUE(first.interrupted);
    EXPECT_EQ(first.steps, asked / 3);
    char name[40];
    std::snprintf(name, sizeof name, "step-%08d+%d", static_cast<int>(asked / 3),
                  static_cast<int>(asked % 3 + 1));
    EXPECT_EQ(saved(run), Names{name});
    EXPECT_EQ(sft(run, four({"run.resume=true"})).steps, 4);
    expect_same_runs(run, "whole", 4);
    EXPECT_EQ(loader(run, "step-00000004"), loader("whole", "step-00000004"));
    EXPECT_EQ(saved(run), Names{"step-00000004"});
  }
}

// Not packed, in several layers of interruption, whatever the form that the run goes on in.
TEST_F(MidStep, SftStoppedAgainAndAgain) {
  write_data();
  Names plain{"data.packing=false", "layers.scan=off"};
  sft("whole", four(plain));
  Names again = four(plain);
  again.push_back("run.resume=true");
  again.push_back("run.save_mode=stream");
  sft("parts", four(plain), 1, StopPoint::micro_step);
  for (int k = 0; k < 5; ++k) sft("parts", again, 2, StopPoint::micro_step);
  sft("parts", again, 1);
  sft("parts", again);
  expect_same_runs("parts", "whole", 4);
}

TEST_F(MidStep, TheFormOfTheModelMayChangeInTheMiddleOfAStep) {
  write_data();
  sft("parts", four({"layers.scan=off"}), 5, StopPoint::micro_step);
  std::string before = state("parts", 1, 3);
  EXPECT_NE(before.find("accumulator.gradient/model.layers.1.mlp.up_proj.weight"),
            std::string::npos);
  EXPECT_NE(before.find("accumulator.weight"), std::string::npos);
  // Stopped before anything else is done: what is saved from the other form is the same.
  fs::copy(dir_ / "parts", dir_ / "copy", fs::copy_options::recursive);
  sft("copy", four({"run.resume=true", "layers.scan=force", "layers.param_scan_axis=1"}), 0);
  EXPECT_EQ(state("copy", 1, 3), before);
  sft("copy", four({"run.resume=true", "layers.scan=force", "layers.param_scan_axis=1"}));
  EXPECT_EQ(saved("copy"), Names{"step-00000004"});
}

TEST_F(MidStep, AnEpochGoesOnInItsOrder) {
  write_data();
  Names one{"train.rows=1", "train.row_tokens=32", "train.accumulate=1", "sft.steps=16"};
  Names resume = one;
  resume.push_back("run.resume=true");
  sft("whole", one);
  // 12 lines, a step uses one: the second stop is in the second epoch.
  sft("parts", one, 3);
  EXPECT_NE(loader("parts", "step-00000003").find("\"epoch\":0"), std::string::npos);
  sft("parts", resume, 11);
  EXPECT_NE(loader("parts", "step-00000014").find("\"epoch\":1"), std::string::npos);
  sft("parts", resume);
  expect_same_runs("parts", "whole", 16);
  EXPECT_EQ(loader("parts", "step-00000016"), loader("whole", "step-00000016"));
}

// Saved after each micro-step, as by the clock of a run with long steps; a process that dies at any
// moment goes on from the last.
TEST_F(MidStep, TheClockSavesBetweenMicroSteps) {
  write_data();
  sft("whole", four());
  sft("parts", four({"run.save_seconds=1e-9", "sft.steps=2", "run.keep_last=8"}), 3,
      StopPoint::micro_step);
  EXPECT_EQ(saved("parts"), (Names{"step-00000001", "step-00000001+1"}));
  // Another death would have left this one too.
  fs::remove_all(dir_ / "parts/checkpoints/step-00000001");
  sft("parts", four({"run.resume=true", "run.save_seconds=1e-9"}));
  expect_same_runs("parts", "whole", 4);
  SftSummary timed = sft("timed", four({"run.max_seconds=1e-9"}));
  EXPECT_TRUE(timed.interrupted);
  EXPECT_EQ(timed.steps, 0);
}

// Two devices that share out the batch keep a part of each sum each; elsewhere it is one sum.
TEST_F(MidStep, AMeshGoesOnAndAnotherOneToo) {
  write_data();
  auto one = compiler_;
  const Names two = four({"sharding.mesh=\"data=2\""});
  auto with = [](Names names, const char* more) {
    names.push_back(more);
    return names;
  };
  compiler_ =
      std::make_shared<runtime::Compiler>(testing::Executor(testing::CpuPlugin::newer, 2).client(),
                                          runtime::CompilerOptions{.cache_dir = {}});
  auto pair = compiler_;
  sft("whole", with(two, "train.rows=2"));
  sft("parts", with(two, "train.rows=2"), 4, StopPoint::micro_step);
  EXPECT_EQ(saved("parts"), Names{"step-00000001+2"});
  fs::copy(dir_ / "parts", dir_ / "moved", fs::copy_options::recursive);
  Names resume = with(with(two, "train.rows=2"), "run.resume=true");
  sft("parts", resume);
  expect_same_runs("parts", "whole", 4);
  // Moved to one device in the middle of a step, and back in the middle of the next one.
  compiler_ = one;
  Names alone = four({});
  alone.insert(alone.end(), {"train.rows=2", "run.resume=true"});
  sft("moved", alone, 3, StopPoint::micro_step);
  EXPECT_EQ(saved("moved"), Names{"step-00000002+2"});
  compiler_ = pair;
  SftSummary moved = sft("moved", resume);
  EXPECT_EQ(moved.steps, 4);
  double want = *metrics("whole")[3].find("loss/train");
  EXPECT_NEAR(moved.last_loss, want, 1e-4 * want);
}

// Stopped in an evaluation, a run has saved the step before it and does the evaluation again; so it
// is with the export.
TEST_F(MidStep, AnEvaluationOfSftIsDoneAgain) {
  write_data();
  Names evaluating = four({"sft.eval_every=2", "sft.eval_batches=3"});
  sft("whole", evaluating);
  Names resume = evaluating;
  resume.push_back("run.resume=true");
  struct Row {
    int64_t asked;  // three times an evaluation, then in the export
    const char* saved;
    size_t reported;
  };
  for (const Row& row :
       {Row{1, "step-00000002", 1}, Row{4, "step-00000004", 3}, Row{7, "step-00000004", 4}}) {
    std::string run = "parts" + std::to_string(row.asked);
    EXPECT_TRUE(sft(run, evaluating, row.asked, StopPoint::evaluation).interrupted);
    for (bool again : {true, false}) {
      EXPECT_EQ(saved(run), Names{row.saved});
      EXPECT_EQ(metrics(run).size(), row.reported);
      EXPECT_FALSE(fs::exists(dir_ / run / "export"));
      if (again) sft(run, resume, 0, StopPoint::evaluation);
    }
    EXPECT_FALSE(sft(run, resume).interrupted);
    expect_same_runs(run, "whole", 4);
    EXPECT_TRUE(fs::exists(dir_ / run / "export"));
  }
}

// A line goes bad in the third step: what is done until there is saved, and with the line mended
// the run goes on as if nothing had been.
TEST_F(MidStep, ABadLineInTheMiddleOfARunLosesNothing) {
  write_data();
  Names plain = four({"data.shuffle=false", "data.packing=false", "data.eval="});
  sft("whole", plain);
  std::string good = read_file(dir_ / "data.jsonl");
  std::string bad = good;
  size_t at = 0;
  for (int line = 0; line < 10; ++line) at = bad.find('\n', at) + 1;
  bad[at] = '[';  // line 11: looked at when line 10 makes the second batch of step 3
  write_file_atomically(dir_ / "data.jsonl", bad);
  testing::expect_error(Code::data_loss, "json.parse", "data.jsonl:11",
                        [&] { sft("parts", plain); });
  EXPECT_EQ(saved("parts"), Names{"step-00000002+1"});
  write_file_atomically(dir_ / "data.jsonl", good);
  plain.push_back("run.resume=true");
  sft("parts", plain);
  expect_same_runs("parts", "whole", 4);
}

// The optimiser gives up: the state before that step is kept, also its counters.
TEST_F(MidStep, AnUpdateThatIsGivenUpLosesNothing) {
  write_data();
  Names mad = four({"optimizer.max_skipped=1", "optimizer.lr=1e30", "run.save_every=0"});
  EXPECT_EQ(error_id([&] { sft("a", mad); }), "optim.skipped_in_a_row");
  Names names = saved("a");
  ASSERT_EQ(names.size(), 1u);
  Json run = read_json(dir_ / "a/checkpoints" / names[0] / "manifest.json");
  EXPECT_EQ(run["run"]["counts"]["count"], run["step"]);
  EXPECT_EQ(run["run"]["counts"]["steps_skipped"], 0);
}

// A rate that no parameter survives: no checkpoint holds what came of it, whether the run saves on
// its own or before its end, and what was saved before stays.
TEST_F(MidStep, NoStateThatIsNotFiniteIsSaved) {
  write_data();
  Names mad = four({"optimizer.name=sgd", "optimizer.clip_norm=0", "optimizer.lr=3e38",
                    "optimizer.weight_decay=1e5", "optimizer.schedule=warmup_cosine",
                    "optimizer.warmup=2", "optimizer.total=100"});
  // The first step has the rate 0, the second half of the peak.
  for (const char* every : {"run.save_every=1", "run.save_every=0"}) {
    Names all = mad;
    all.insert(all.end(), {every, "run.keep_last=1"});
    std::string run = every;
    std::string id = error_id([&] { sft(run, all); });
    const bool each = run.back() == '1';
    EXPECT_EQ(id, "rl.not_finite");
    EXPECT_EQ(saved(run), each ? Names{"step-00000001"} : Names{});
    if (each) {
      testing::expect_error(Code::aborted, "rl.not_finite", "after step 2", [&] {
        Names more = all;
        more.push_back("run.resume=true");
        sft(run, more);
      });
    }
  }
  mad.insert(mad.end(), {"run.resume=true", "optimizer.lr=1e-3", "optimizer.weight_decay=0"});
  EXPECT_EQ(sft("run.save_every=1", mad).steps, 4);
}

// A bad line in the evaluation's data: the steps before are kept, and what was to be reported.
TEST_F(MidStep, ABadLineInAnEvaluationLosesNothing) {
  write_data();
  std::string good = read_file(dir_ / "data.jsonl");
  write_file_atomically(dir_ / "eval.jsonl", good);
  Names evaluating = four({"sft.eval_every=2"});
  sft_eval_ = "eval.jsonl";
  sft("whole", evaluating);
  write_file_atomically(dir_ / "eval.jsonl", good + "[\n");
  testing::expect_error(Code::data_loss, "json.parse", "eval.jsonl:13",
                        [&] { sft("parts", evaluating); });
  EXPECT_EQ(saved("parts"), Names{"step-00000002"});
  EXPECT_EQ(metrics("parts").size(), 1u);
  write_file_atomically(dir_ / "eval.jsonl", good);
  evaluating.push_back("run.resume=true");
  sft("parts", evaluating);
  expect_same_runs("parts", "whole", 4);
}

class MidGrpo : public MidStep {
 protected:
  // Several batches a step, two iterations, a reference.
  Names small(Names more = {}) const {
    for (const char* text : {"train.row_tokens=64", "train.scored_tokens=10", "grpo.iterations=2",
                             "grpo.beta=0.05", "grpo.steps=3"}) {
      more.insert(more.begin(), text);
    }
    return more;
  }
};

TEST_F(MidGrpo, StoppedAfterAnyMicroStepItGoesOn) {
  grpo("whole", small());
  for (int64_t asked : {0, 3, 7, 12}) {
    std::string run = "parts" + std::to_string(asked);
    EXPECT_TRUE(grpo(run, small(), asked, StopPoint::micro_step).interrupted);
    ASSERT_EQ(saved(run).size(), 1u);
    EXPECT_NE(saved(run)[0].find('+'), std::string::npos);
    EXPECT_EQ(grpo(run, small({"run.resume=true"})).steps, 3);
    expect_same_runs(run, "whole", 3);
  }
}

TEST_F(MidGrpo, StoppedAmongItsTokensASampleIsDrawnAgain) {
  grpo("whole", small());
  EXPECT_TRUE(grpo("parts", small(), 8, StopPoint::sampling).interrupted);
  EXPECT_EQ(saved("parts"), Names{"step-00000001"});
  grpo("parts", small({"run.resume=true"}));
  expect_same_runs("parts", "whole", 3);
}

TEST_F(MidGrpo, AnEvaluationIsDoneAgain) {
  const Names evaluating = small({"task.validation=4", "grpo.eval_every=1"});
  GrpoSummary whole = grpo("whole", evaluating);
  Names resume = evaluating;
  resume.push_back("run.resume=true");
  // Asked once a prompt and token, at most six of an answer: twice before training (of 5 and 4
  // prompts), after each step, at the end.
  for (int64_t at : {0, 21, 40, 50}) {
    std::string run = "parts" + std::to_string(at);
    GrpoSummary first = grpo(run, evaluating, at, StopPoint::evaluation);
    EXPECT_EQ(at == 0, saved(run).empty());
    EXPECT_TRUE(first.interrupted);
    EXPECT_FALSE(fs::exists(dir_ / run / "export"));
    if (at > 0) grpo(run, resume, 0, StopPoint::evaluation);
    GrpoSummary rest = grpo(run, resume);
    EXPECT_FALSE(rest.interrupted);
    EXPECT_EQ(rest.best_step, whole.best_step);
    EXPECT_EQ(rest.after, whole.after);
    expect_same_runs(run, "whole", 3);
    EXPECT_EQ(metrics(run)[2].find("eval/accuracy"), metrics("whole")[2].find("eval/accuracy"));
    EXPECT_TRUE(fs::exists(dir_ / run / "export"));
  }
}

TEST_F(MidGrpo, TheClockSavesCompletionsAndMicroSteps) {
  grpo("whole", small());
  grpo("parts", small({"run.save_seconds=1e-9"}), 5, StopPoint::micro_step);
  grpo("parts", small({"run.resume=true", "run.save_seconds=1e-9"}), 6, StopPoint::micro_step);
  grpo("parts", small({"run.resume=true"}));
  expect_same_runs("parts", "whole", 3);
}

// The optimiser gives up in the second iteration of a step: what the first one did is kept.
TEST_F(MidGrpo, AnUpdateThatIsGivenUpLosesNothing) {
  Names mad = small({"optimizer.max_skipped=1", "optimizer.lr=1e30", "grpo.beta=0"});
  EXPECT_EQ(error_id([&] { grpo("a", mad); }), "optim.skipped_in_a_row");
  Names names = saved("a");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(names[0].starts_with("step-00000000+")) << names[0];
  EXPECT_NE(names[0], "step-00000000+0");
  Json run = read_json(dir_ / "a/checkpoints" / names[0] / "manifest.json")["run"];
  EXPECT_EQ(run["counts"]["count"], 1);
  EXPECT_EQ(run["counts"]["steps_skipped"], 0);
  // It goes on from there, to the same end.
  mad.push_back("run.resume=true");
  EXPECT_EQ(error_id([&] { grpo("a", mad); }), "optim.skipped_in_a_row");
  EXPECT_EQ(saved("a"), names);
}

TEST_F(MidGrpo, AnotherBatchShapeCannotTakeOverInTheMiddle) {
  grpo("a", small(), 2, StopPoint::micro_step);
  auto expect_refused = [&](const Names& shape, const char* part) {
    Names all = small({"run.resume=true"});
    all.insert(all.end(), shape.begin(), shape.end());
    testing::expect_error(Code::failed_precondition, "rl.saved_batches", part,
                          [&] { grpo("a", all); });
  };
  const Names larger{"train.rows=4", "train.scored_tokens=40"};
  expect_refused(larger,
                 "of which 2 are done: train.rows = 1, train.row_tokens = 64, "
                 "train.scored_tokens = 10 and a mesh");
  expect_refused(larger, "got train.rows = 4, train.row_tokens = 64, train.scored_tokens = 40");
  expect_refused(larger, "step-00000000+2");
  // As many batches of another shape are others, too.
  expect_refused({"train.row_tokens=65"}, "train.row_tokens = 65");
  grpo("whole", small());
  grpo("a", small({"run.resume=true"}));
  expect_same_runs("a", "whole", 3);
}

TEST_F(MidGrpo, BeforeItsFirstMicroStepAStepTakesAnyShape) {
  grpo("whole", small());
  grpo("a", small(), 0, StopPoint::micro_step);
  EXPECT_EQ(saved("a"), Names{"step-00000000+0"});
  grpo("a", small({"run.resume=true", "train.rows=4", "train.scored_tokens=40"}));
  for (const char* name : {"loss/grad_norm", "reward/mean", "completion/mean"}) {
    double want = *metrics("whole")[0].find(name);
    EXPECT_NEAR(*metrics("a")[0].find(name), want, 1e-4 * std::abs(want)) << name;
  }
}

TEST(GrpoWork, DamagedPartsAreRefused) {
  GrpoWork work;
  BatchCompletion c{{3, 44, 2}, std::vector<TokenTerm>(3, {.weight = 1, .advantage = 0.5}), 0};
  work.groups = {{{5, 9}, {c}, "a"}};
  work.batches = pack(work.groups, {1, 16, 8});
  work.sums = {1, 2};
  work.result.metrics.add("reward/mean", 0.25);
  const Json json = to_json(work, {1, 16, 8});
  const std::vector<StepTensor> tensors = tensors_of(work);
  GrpoWork back = work_from(json, tensors, {1, 16, 8}, 0, "here");
  EXPECT_EQ(to_json(back, {1, 16, 8}), json);
  EXPECT_EQ(back.groups[0].completions[0].ids, c.ids);
  EXPECT_EQ(back.groups[0].completions[0].terms[2].advantage, 0.5f);
  EXPECT_EQ(back.sums, work.sums);
  auto expect_damaged = [&](Json j, std::span<const StepTensor> t, const char* part) {
    testing::expect_error(Code::data_loss, "rl.saved_step", part, [&] {
      work_from(j, t, {1, 16, 8}, 0, "here");
    });
  };
  Json longer = json, shorter = json, none = json;
  longer["groups"][0]["prompt"] = 3;
  shorter["groups"][0]["completions"][0]["tokens"] = 2;
  none.erase("rewards");
  expect_damaged(longer, tensors, "3 more of 'prompts'");
  expect_damaged(shorter, tensors, "no more of 'completions'");
  expect_damaged(none, tensors, "rewards");
  expect_damaged(json, std::span(tensors).subspan(1), "'prompts'");
}

}  // namespace
}  // namespace strata::rl
