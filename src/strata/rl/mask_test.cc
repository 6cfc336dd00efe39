#include "strata/rl/mask.h"

#include <gtest/gtest.h>

#include "strata/base/error.h"
#include "strata/rl/aggregate.h"
#include "strata/rl/clip.h"

namespace strata::rl {
namespace {

template <class Run>
std::string error_id(Run run, const std::string& part) {
  try {
    run();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.id();
  }
  return "";
}

using Ids = std::vector<int32_t>;
using Mask = std::vector<uint8_t>;

TEST(Mask, AStopTokenBeforeAToolTokenEndsATurnOnly) {
  Ids ids = {5, 3, 8, 8, 6, 3, 4};
  Mask by_model = {1, 1, 0, 0, 1, 1, 1};
  CompletionMask m = completion_mask({.ids = ids, .by_model = by_model}, {.stop_ids = {3}});
  EXPECT_EQ(m.trained, (Mask{1, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(m.trained_tokens, 4);
  EXPECT_EQ(m.length, 6);
  EXPECT_TRUE(m.finished);
}

TEST(Mask, AToolsStopTokenEndsNothing) {
  Ids ids = {5, 3, 6};
  Mask by_model = {1, 0, 1};
  CompletionMask m = completion_mask({.ids = ids, .by_model = by_model}, {.stop_ids = {3}});
  EXPECT_EQ(m.trained, (Mask{1, 0, 1}));
  EXPECT_FALSE(m.finished);
}

TEST(Mask, CutCompletionsAreKeptOrMaskedButNeverFinished) {
  Ids ids = {5, 6, 7};
  CompletionMask kept = completion_mask({.ids = ids}, {.stop_ids = {3}});
  EXPECT_EQ(kept.trained_tokens, 3);
  EXPECT_FALSE(kept.finished);
  CompletionMask masked =
      completion_mask({.ids = ids}, {.stop_ids = {3}, .overlong = Overlong::mask});
  EXPECT_EQ(masked.trained, (Mask{0, 0, 0}));
  EXPECT_EQ(masked.length, 3);
  EXPECT_FALSE(masked.finished);
}

TEST(Mask, AStopStringFinishesWithoutAStopToken) {
  Ids ids = {5, 6};
  CompletionMask m = completion_mask({.ids = ids, .stopped_by_text = true},
                                     {.stop_ids = {3}, .overlong = Overlong::mask});
  EXPECT_TRUE(m.finished);
  EXPECT_EQ(m.trained, (Mask{1, 1}));
}

TEST(Mask, EmptyCompletionIsCutAndHasNoTokens) {
  CompletionMask m = completion_mask({}, {.stop_ids = {3}});
  EXPECT_TRUE(m.trained.empty());
  EXPECT_EQ(m.length, 0);
  EXPECT_FALSE(m.finished);
}

TEST(Mask, OverlongPenaltyIsASoftRamp) {
  OverlongPenalty p{.max_tokens = 20, .window = 4};
  EXPECT_EQ(overlong_penalty(0, true, p), 0);
  EXPECT_EQ(overlong_penalty(16, true, p), 0);
  EXPECT_DOUBLE_EQ(overlong_penalty(17, true, p), -0.25);
  EXPECT_DOUBLE_EQ(overlong_penalty(20, true, p), -1);
  EXPECT_EQ(overlong_penalty(3, false, p), -1);
  EXPECT_EQ(overlong_penalty(20, true, {.max_tokens = 20}), 0);
  EXPECT_EQ(overlong_penalty(21, true, {.max_tokens = 20}), -1);
}

TEST(MaskErrors, Refused) {
  Ids ids = {1, 2};
  Mask one = {1};
  EXPECT_EQ(error_id([&] { completion_mask({.ids = ids, .by_model = one}, {}); }, "2 tokens"),
            "rl.mask_length");
  EXPECT_EQ(error_id([] { parse_overlong("drop"); }, "keep or mask"), "rl.mask_overlong");
  EXPECT_EQ(error_id([] { overlong_penalty(1, true, {.max_tokens = 2, .window = 3}); }, "window 3"),
            "rl.mask_penalty");
}

TEST(Aggregate, AllMaskedStepHasZeroWeights) {
  std::vector<Mask> masks = {{0, 0}, {}, {0}};
  for (auto how : {Aggregation::sequence_mean, Aggregation::token_mean, Aggregation::constant}) {
    StepWeights step = step_weights(masks, how, 2);
    EXPECT_EQ(step.empty_samples, 3);
    EXPECT_EQ(step.trained_tokens, 0);
    EXPECT_EQ(step.weights, (std::vector<std::vector<float>>{{0, 0}, {}, {0}}));
  }
}

TEST(Aggregate, AnEmptySampleStillCountsInTheSequenceMean) {
  std::vector<Mask> masks = {{1, 1}, {0, 0}};
  StepWeights step = step_weights(masks, Aggregation::sequence_mean, 2);
  EXPECT_EQ(step.weights[0], (std::vector<float>{0.25f, 0.25f}));
}

TEST(AggregateErrors, Refused) {
  std::vector<Mask> masks = {{1, 1, 1}};
  EXPECT_EQ(error_id([&] { step_weights(masks, Aggregation::constant, 2); }, "at least 3"),
            "rl.aggregation_length");
  EXPECT_EQ(error_id([&] { step_weights({}, Aggregation::constant, 0); }, "got 0"),
            "rl.aggregation_length");
  EXPECT_EQ(error_id([] { parse_aggregation("token-mean"); }, "'token_mean'"), "rl.aggregation");
}

TEST(Clip, OnPolicyTokensStillHaveAGradient) {
  ClipTerm t = clip_term(0.7, 1, {});
  EXPECT_EQ(t.loss, -0.7);
  EXPECT_EQ(t.gradient, -0.7);
}

TEST(ClipErrors, Refused) {
  EXPECT_EQ(error_id([] { check(ClipOptions{.low = 1}); }, "low 1"), "rl.clip_range");
  EXPECT_EQ(error_id([] { check(ClipOptions{.high = -0.1}); }, "high -0.1"), "rl.clip_range");
  EXPECT_EQ(error_id([] { clip_term(1, 1, {.dual = 1.2}); }, "above 1 + high"), "rl.clip_dual");
}

}  // namespace
}  // namespace strata::rl
