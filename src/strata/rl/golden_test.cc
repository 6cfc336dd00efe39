// The host side of the GRPO loss against values that tools/make_rl_cases.py computed, and the
// whole page of a small report.
#include <gtest/gtest.h>

#include "strata/base/json.h"
#include "strata/rl/advantage.h"
#include "strata/rl/aggregate.h"
#include "strata/rl/clip.h"
#include "strata/rl/mask.h"
#include "strata/rl/report.h"
#include "strata/testing/golden.h"

namespace strata::rl {
namespace {

using Masks = std::vector<std::vector<uint8_t>>;
using Losses = std::vector<std::vector<double>>;

Json cases(const std::string& name) {
  return read_json(STRATA_SOURCE_DIR "/tests/testdata/rl/cases.json").at(name);
}

// The loss of samples [begin, end), as one micro-batch would add it.
double share(const StepWeights& step, const Losses& losses, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) {
    for (size_t t = 0; t < losses[i].size(); ++t) {
      if (step.weights[i][t] != 0) sum += step.weights[i][t] * losses[i][t];
    }
  }
  return sum;
}

TEST(RlCases, StepOfUnequalMicroBatchesIsOneSum) {
  Json c = cases("accumulation");
  Losses losses;
  Masks masks;
  for (const Json& micro : c.at("micro_batches")) {
    for (const Json& sample : micro) {
      losses.push_back(sample.get<std::vector<double>>());
      masks.emplace_back(losses.back().size(), uint8_t{1});
    }
  }
  for (const char* name : {"token_mean", "sequence_mean", "constant"}) {
    StepWeights step = step_weights(masks, parse_aggregation(name), c.at("max_tokens"));
    double want = c.at(name);
    for (size_t micro : {size_t{1}, size_t{2}, size_t{8}}) {
      double sum = 0;
      for (size_t i = 0; i < losses.size(); i += micro) sum += share(step, losses, i, i + micro);
      EXPECT_NEAR(sum, want, 1e-7) << name << ", micro-batches of " << micro;
    }
    EXPECT_EQ(step.trained_tokens, 24);
    EXPECT_EQ(step.empty_samples, 0);
  }
  EXPECT_GT(
      std::abs(c.at("wrong_mean_of_micro_means").get<double>() - c.at("token_mean").get<double>()),
      0.1);
}

TEST(RlCases, TwoStepsDivideByTheirOwnTokens) {
  Json c = cases("accumulation");
  for (size_t k = 0; k < 2; ++k) {
    Losses losses;
    Masks masks;
    for (size_t micro = 2 * k; micro < 2 * k + 2; ++micro) {
      for (const Json& sample : c.at("micro_batches").at(micro)) {
        losses.push_back(sample.get<std::vector<double>>());
        masks.emplace_back(losses.back().size(), uint8_t{1});
      }
    }
    StepWeights step = step_weights(masks, Aggregation::token_mean, 8);
    EXPECT_NEAR(share(step, losses, 0, 4), c.at("two_steps_token_mean").at(k), 1e-7);
  }
}

// Rows of five tokens whose completions end where `lengths` says; 9 is the stop id.
Masks masks_of(const Json& c, Overlong overlong) {
  Masks masks;
  for (size_t i = 0; i < c.at("lengths").size(); ++i) {
    std::vector<int32_t> ids(c.at("lengths").at(i).get<size_t>(), 1);
    if (!ids.empty() && !c.at("truncated").at(i).get<bool>()) ids.back() = 9;
    CompletionMask m = completion_mask({.ids = ids}, {.stop_ids = {9}, .overlong = overlong});
    m.trained.resize(5, 0);
    masks.push_back(m.trained);
  }
  return masks;
}

TEST(RlCases, MaskedCompletionsCountNowhere) {
  Json c = cases("masked");
  auto losses = c.at("loss").get<Losses>();
  Masks masks = masks_of(c, Overlong::mask);
  StepWeights token = step_weights(masks, Aggregation::token_mean, 5);
  EXPECT_NEAR(share(token, losses, 0, 4), c.at("token_mean"), 1e-6);
  EXPECT_EQ(token.empty_samples, 2);
  StepWeights sequence = step_weights(masks, Aggregation::sequence_mean, 5);
  EXPECT_NEAR(share(sequence, losses, 0, 4), c.at("sequence_mean_over_all"), 1e-6);
  StepWeights kept = step_weights(masks_of(c, Overlong::keep), Aggregation::token_mean, 5);
  EXPECT_EQ(kept.trained_tokens, 11);
}

TEST(RlCases, ClipRows) {
  Json c = cases("clip");
  ClipOptions plain{.low = c.at("low"), .high = c.at("high")};
  ClipOptions dual = plain;
  dual.dual = c.at("dual").get<double>();
  for (const Json& row : c.at("rows")) {
    SCOPED_TRACE(row.dump());
    double a = row.at("A"), ratio = row.at("ratio");
    ClipTerm p = clip_term(a, ratio, plain), d = clip_term(a, ratio, dual);
    EXPECT_NEAR(p.loss, row.at("loss"), 1e-15);
    EXPECT_NEAR(p.gradient, row.at("gradient"), 1e-15);
    EXPECT_NEAR(d.loss, row.at("dual_loss"), 1e-15);
    EXPECT_NEAR(d.gradient, row.at("dual_gradient"), 1e-15);
    EXPECT_EQ(p.clipped_low || p.clipped_high, row.at("clipped").get<bool>());
    EXPECT_FALSE(p.clipped_dual);
  }
}

TEST(RlCases, CompletionMasks) {
  Json c = cases("masks");
  MaskOptions options{.stop_ids = c.at("stop_ids").get<std::vector<int32_t>>()};
  for (size_t i = 0; i < c.at("completions").size(); ++i) {
    auto ids = c.at("completions").at(i).get<std::vector<int32_t>>();
    CompletionMask m = completion_mask({.ids = ids}, options);
    EXPECT_EQ(m.trained, c.at("trained").at(i).get<std::vector<uint8_t>>()) << i;
    EXPECT_EQ(m.finished, c.at("finished").at(i).get<bool>()) << i;
  }
  auto ids = c.at("tools").at("ids").get<std::vector<int32_t>>();
  auto by_model = c.at("tools").at("by_model").get<std::vector<uint8_t>>();
  CompletionMask m = completion_mask({.ids = ids, .by_model = by_model}, options);
  EXPECT_EQ(m.trained, c.at("tools").at("trained").get<std::vector<uint8_t>>());
  EXPECT_EQ(m.trained_tokens, 4);
  EXPECT_EQ(m.length, 6);
}

TEST(RlCases, Advantages) {
  for (const Json& row : cases("advantages")) {
    SCOPED_TRACE(row.dump());
    auto rewards = row.at("rewards").get<std::vector<double>>();
    for (const char* name : {"sample", "population", "none"}) {
      Advantages a = group_advantages(rewards, static_cast<int64_t>(rewards.size()),
                                      {.std = parse_advantage_std(name)});
      for (size_t i = 0; i < rewards.size(); ++i) {
        double want = row.at(name).at(i);
        EXPECT_NEAR(a.values[i], want, 1e-6 * std::max(1.0, std::abs(want))) << name;
      }
    }
  }
}

// Shaped like a run: everything that a page can hold, with a fixed pseudo-random wobble.
Report sample_report() {
  std::vector<StepMetrics> history;
  for (int64_t step = 0; step < 24; ++step) {
    double x = static_cast<double>(step) / 23, wobble = static_cast<double>(step * 7 % 5) / 50;
    StepMetrics m;
    m.step = step;
    m.add("reward/mean", 0.35 + 0.4 * x + wobble);
    m.add("solved/samples", 0.2 + 0.5 * x - wobble);
    m.add("completion/mean", 9 - 5 * x + wobble);
    m.add("completion/max", 14 - 3 * x);
    m.add("loss/lr", 2e-5 * (1 - x));
    m.add("seconds/sample", 4 + wobble);
    m.add("seconds/train", 6 - wobble);
    if (step % 8 == 0) m.add("eval/accuracy", 0.4 + 0.3 * x);
    history.push_back(m);
  }
  Report r;
  r.title = "GRPO: a small model on arithmetic";
  r.headline = "38.5% \u2192 77.0%";
  r.summary = "Accuracy on 200 held-out problems, greedy, before and after 24 steps.";
  r.figures = {{"Steps", "24"}, {"Time", "11:32"}, {"Peak memory", "3.20 GiB"}};
  r.charts = charts_of(history);
  r.samples = {{"What is 3 + 17? Answer with the number only.", "20",
                "3 + 17 = 20 <|im_end|>\nThe answer is 10.", "20", false, true},
               {"What is 9 + 9? Answer with the number only.", "18", "18", "19", true, false}};
  r.phases = {{"sample", 96.5, 12000}, {"reward", 0.2, 0}, {"train", 144.25, 30000}};
  r.files = {{"Checkpoint", "run/checkpoints/step-24"}, {"Model", "run/export"}};
  r.machine = {{"Processor", "A \"fast\" one"}, {"Memory", "15.60 GiB"}};
  r.configuration = facts_of({{"train", {{"lr", 2e-5}, {"steps", 24}}}, {"task", "arithmetic"}});
  return r;
}

TEST(RlCases, ReportPage) {
  testing::expect_golden("rl/report.html", html_report(sample_report()));
}

}  // namespace
}  // namespace strata::rl
