// Who sees whom, against the rule written as loops.
#include "strata/nn/token_context.h"

#include <gtest/gtest.h>

#include "strata/nn/toy_for_test.h"

namespace strata::nn {
namespace {

using ir::Function;
using ir::Values;

using Rows = std::vector<std::vector<int32_t>>;

HostTensor ints(const Rows& rows) {
  std::vector<int32_t> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return HostTensor::of<int32_t>(
      {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, flat);
}

HostTensor run(const Tensors& inputs, const testing::Build& build) {
  Tensors out = testing::Executor().run(*testing::trace(testing::types_of(inputs), build), inputs);
  return std::move(out[0]);
}

void expect_mask(const HostTensor& got, const Rows& segments, const Rows& parents) {
  size_t length = segments[0].size();
  for (size_t b = 0; b < segments.size(); ++b) {
    for (size_t t = 0; t < length; ++t) {
      for (size_t s = 0; s < length; ++s) {
        int32_t key = segments[b][s];
        bool related = key == segments[b][t] || (!parents.empty() && key == parents[b][t]);
        bool sees = key != 0 && s <= t && related;
        EXPECT_EQ(got.at(static_cast<int64_t>((b * length + t) * length + s)), sees ? 1 : 0)
            << "row " << b << ": " << t << " sees " << s;
      }
    }
  }
}

TEST(SegmentMask, IsCausalInsideSegments) {
  Rows segments{{1, 1, 1, 2, 2, 3, 0, 0}, {0, 0, 1, 1, 1, 1, 1, 1}};
  Tensors inputs;
  inputs.push_back(ints(segments));
  expect_mask(
      run(inputs, [](Function&, const Values& v) -> Values { return {segment_mask(v[0])}; }),
      segments, {});
}

// A prompt (1) with two completions (2, 3) blind to each other, then a prompt (4) with one (5).
TEST(SegmentMask, CompletionsShareTheirParent) {
  Rows segments{{1, 1, 2, 2, 3, 4, 5, 0}, {0, 0, 0, 0, 0, 0, 0, 0}};
  Rows parents{{0, 0, 1, 1, 1, 0, 4, 0}, {0, 0, 0, 0, 0, 0, 0, 0}};
  Tensors inputs;
  inputs.push_back(ints(segments));
  inputs.push_back(ints(parents));
  HostTensor got =
      run(inputs, [](Function&, const Values& v) -> Values { return {segment_mask(v[0], v[1])}; });
  expect_mask(got, segments, parents);
  EXPECT_EQ(got.at(4 * 8 + 1), 1);  // the second completion sees the prompt
  EXPECT_EQ(got.at(4 * 8 + 3), 0);  // but not the first completion
}

TEST(CacheMask, SeesColumnsUpToItsOwn) {
  Tensors inputs;
  inputs.push_back(HostTensor::of<int32_t>({2}, {0, 3}));
  HostTensor got =
      run(inputs, [](Function&, const Values& v) -> Values { return {cache_mask(v[0], 2, 6)}; });
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 2; ++t) {
      for (int64_t s = 0; s < 6; ++s) {
        EXPECT_EQ(got.at((b * 2 + t) * 6 + s), s <= 3 * b + t ? 1 : 0) << b << t << s;
      }
    }
  }
}

TEST(CausalMask, LeavesOutWhatIsNotValid) {
  Tensors inputs;
  HostTensor valid(DType::pred, {1, 4});
  for (int64_t i = 1; i < 4; ++i) valid.set(i, 1);
  inputs.push_back(std::move(valid));
  expect_mask(run(inputs, [](Function&, const Values& v) -> Values { return {causal_mask(v[0])}; }),
              {{0, 1, 1, 1}}, {});
}

}  // namespace
}  // namespace strata::nn
