// Every kind of policy loss in whole GRPO runs: KL term, sequence-level ratios, several updates a
// step, the three aggregations, and optimisers.
#include <cmath>

#include "end_to_end/runs_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata::rl {
namespace {

class Options : public Runs {
 protected:
  using Metrics = std::vector<StepMetrics>;

  // A run's metrics: every step trained on completions of unequal length, all numbers are finite,
  // and trainer and sampler agree.
  Metrics trained(const std::string& output, const std::vector<std::string>& overrides) {
    grpo(output, overrides);
    Metrics all = metrics(output);
    EXPECT_FALSE(all.empty());
    for (const StepMetrics& m : all) {
      SCOPED_TRACE(output + ", step " + std::to_string(m.step));
      for (const Scalar& s : m.scalars) EXPECT_TRUE(std::isfinite(s.value)) << s.name;
      EXPECT_LT(at(m, "solved/zero_std"), 1);
      EXPECT_GT(at(m, "loss/grad_norm"), 0);
      EXPECT_LE(at(m, "mismatch/max"), 1e-4);
      EXPECT_EQ(at(m, "train/updates_skipped"), 0);
    }
    return all;
  }
  static double at(const StepMetrics& m, const char* name) {
    std::optional<double> value = m.find(name);
    EXPECT_TRUE(value.has_value()) << name;
    return value.value_or(std::nan(""));
  }
  // The same run in two parts.
  void expect_resumable(const std::string& whole, std::vector<std::string> overrides) {
    grpo("parts", overrides, 2);
    EXPECT_NE(state("parts", 2), state(whole, 4));
    overrides.push_back("run.resume=true");
    grpo("parts", overrides);
    EXPECT_EQ(state("parts", 4), state(whole, 4));
  }
};

TEST_F(Options, GrpoRaisesItsReward) {
  Metrics all = trained("a", {"grpo.steps=16", "optimizer.lr=1e-2", "grpo.group_size=8"});
  auto mean = [&](size_t begin) {
    double sum = 0;
    for (size_t i = begin; i < begin + 4; ++i) sum += at(all[i], "reward/mean") / 4;
    return sum;
  };
  EXPECT_GT(mean(12), mean(0) + 0.1);
}

TEST_F(Options, KlTermStartsAtNothingAndHoldsTheRunBack) {
  Metrics free = trained("free", {"grpo.beta=1e-6"});
  EXPECT_LE(std::abs(at(free[0], "loss/kl")), 1e-9);
  EXPECT_GT(at(free[3], "loss/kl"), 1e-6);
  Metrics held = trained("held", {"grpo.beta=100"});
  EXPECT_LE(std::abs(at(held[0], "loss/kl")), 1e-9);
  EXPECT_LT(at(held[3], "loss/kl"), at(free[3], "loss/kl"));
  EXPECT_FALSE(trained("none", {"grpo.steps=1"})[0].find("loss/kl").has_value());
}

TEST_F(Options, KlEstimatorsDiffer) {
  Metrics k1 = trained("k1", {"grpo.beta=0.1", "grpo.kl_estimator=k1"});
  Metrics k2 = trained("k2", {"grpo.beta=0.1", "grpo.kl_estimator=k2"});
  EXPECT_LE(std::abs(at(k1[0], "loss/kl")), 1e-6);
  EXPECT_LE(at(k2[0], "loss/kl"), 1e-9);
  EXPECT_GT(at(k2[3], "loss/kl"), 1e-6);
  EXPECT_NE(state("k1", 4), state("k2", 4));
}

// The reference is the model the run began with, also after a resume.
TEST_F(Options, AResumedRunKeepsItsReference) {
  trained("whole", {"grpo.beta=0.5"});
  expect_resumable("whole", {"grpo.beta=0.5"});
}

TEST_F(Options, SeveralUpdatesReuseTheCompletions) {
  Metrics once = trained("once", {});
  EXPECT_EQ(at(once[3], "loss/ratio_max"), 1);
  Metrics thrice = trained("thrice", {"grpo.iterations=3"});
  EXPECT_GT(at(thrice[0], "loss/ratio_max"), 1.0001);
  // The first update is the same: no ratio has moved yet.
  EXPECT_NEAR(at(thrice[0], "reward/mean"), at(once[0], "reward/mean"), 0);
  Json manifest = read_json(dir_ / "thrice/checkpoints/step-00000004/manifest.json");
  EXPECT_EQ(manifest.at("run").at("counts").at("count"), 12);
  expect_resumable("thrice", {"grpo.iterations=3"});
}

// Updates so small that the second meets ratios of about 1 ± 3e-4, which GSPO's bounds clip in part
// and wide ones not at all.
TEST_F(Options, SequenceRatiosWithTheirTightBounds) {
  std::vector<std::string> options{"grpo.ratio=sequence", "grpo.clip_low=3e-4",
                                   "grpo.clip_high=4e-4", "grpo.iterations=2", "optimizer.lr=3e-6"};
  Metrics tight = trained("tight", options);
  double clipped = 0;
  for (const StepMetrics& m : tight) clipped += at(m, "loss/clip_low") + at(m, "loss/clip_high");
  EXPECT_GT(clipped, 0);
  EXPECT_GT(at(tight[0], "loss/ratio_max"), 1);
  EXPECT_LT(at(tight[0], "loss/ratio_max"), 1.01);
  expect_resumable("tight", options);
  Metrics wide = trained("wide", {"grpo.ratio=sequence", "grpo.iterations=2", "optimizer.lr=3e-6"});
  EXPECT_EQ(at(wide[0], "loss/clip_low") + at(wide[0], "loss/clip_high"), 0);
  Metrics token = trained("token", {"grpo.iterations=2", "optimizer.lr=3e-6"});
  EXPECT_LE(at(wide[0], "loss/ratio_max"), at(token[0], "loss/ratio_max"));
  EXPECT_NE(state("wide", 4), state("token", 4));
}

// On-policy every ratio is 1, so a step's loss is minus the weighted sum of advantages: 0 by
// sequences, and by tokens or by a constant two sums that differ in their denominator only.
TEST_F(Options, AggregationsDivideAsTheySay) {
  Metrics sequence = trained("sequence", {"grpo.steps=1"});
  Metrics token = trained("token", {"grpo.steps=1", "grpo.aggregation=token_mean"});
  Metrics constant = trained("constant", {"grpo.steps=1", "grpo.aggregation=constant"});
  EXPECT_NEAR(at(sequence[0], "loss/total"), 0, 1e-4);
  EXPECT_GT(at(token[0], "loss/total"), 0.01);  // the longer, the worse
  EXPECT_NEAR(at(constant[0], "loss/total"),
              at(token[0], "loss/total") * at(token[0], "completion/mean") / 6, 1e-4);
}

TEST_F(Options, DrGrpoAndDapo) {
  Metrics dr = trained("dr", {"grpo.aggregation=constant", "grpo.advantage_std=none"});
  Metrics dapo = trained("dapo", {"grpo.aggregation=token_mean", "grpo.clip_high=0.28",
                                  "grpo.overlong=mask", "grpo.dual_clip=3"});
  trained("population", {"grpo.advantage_std=population", "grpo.importance_cap=0"});
  // Rewards from 0 to 1 without division by their spread.
  EXPECT_LT(at(dr[0], "advantage/max"), 1);
  EXPECT_GT(at(dapo[0], "completion/truncated"), 0);
  EXPECT_NE(state("dr", 4), state("dapo", 4));
}

// Rows too short for a group cut it: more micro-steps, the same step.
TEST_F(Options, MicroStepsChangeNothing) {
  Metrics whole = trained("whole", {"grpo.steps=1", "grpo.aggregation=token_mean"});
  Metrics cut = trained("cut", {"grpo.steps=1", "grpo.aggregation=token_mean",
                                "train.row_tokens=64", "train.scored_tokens=12"});
  EXPECT_NEAR(at(cut[0], "loss/total"), at(whole[0], "loss/total"), 1e-5);
  double norm = at(whole[0], "loss/grad_norm");
  EXPECT_NEAR(at(cut[0], "loss/grad_norm"), norm, 1e-4 * norm);
}

TEST_F(Options, OtherOptimisers) {
  trained("lion", {"optimizer.name=lion", "optimizer.lr=1e-4"});
  trained("sgd", {"optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.nesterov=true"});
  EXPECT_NE(state("lion", 4), state("sgd", 4));
}

}  // namespace
}  // namespace strata::rl
