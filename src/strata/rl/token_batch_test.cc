#include "strata/rl/token_batch.h"

#include <gtest/gtest.h>

#include "strata/testing/errors.h"

namespace strata::rl {
namespace {

BatchCompletion completion(std::vector<int32_t> ids, int64_t sample) {
  BatchCompletion c;
  c.sample = sample;
  c.terms.resize(ids.size());
  for (size_t t = 0; t < ids.size(); ++t) {
    c.terms[t].weight = 1;
    c.terms[t].advantage = static_cast<float>(10 * sample) + static_cast<float>(t);
  }
  c.ids = std::move(ids);
  return c;
}

std::vector<int32_t> list(const HostTensor& t) {
  auto d = t.data<int32_t>();
  return {d.begin(), d.end()};
}

TEST(Pack, SharesThePromptAndPredictsFromItsLastToken) {
  std::vector<BatchGroup> groups{
      {{5, 6, 7}, {completion({1, 2}, 0), completion({3}, 1), completion({4, 8, 9}, 2)}, "g"}};
  std::vector<TokenBatch> batches = pack(groups, {1, 10, 8});
  ASSERT_EQ(batches.size(), 1u);
  const TokenBatch& b = batches[0];
  // The last token of a completion is only a label.
  EXPECT_EQ(list(b.ids), (std::vector<int32_t>{5, 6, 7, 1, 4, 8, 0, 0, 0, 0}));
  EXPECT_EQ(list(b.positions), (std::vector<int32_t>{0, 1, 2, 3, 3, 4, 0, 0, 0, 0}));
  EXPECT_EQ(list(b.segments), (std::vector<int32_t>{1, 1, 1, 2, 4, 4, 0, 0, 0, 0}));
  EXPECT_EQ(list(b.parents), (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(list(b.source), (std::vector<int32_t>{2, 3, 2, 2, 4, 5, 0, 0}));
  EXPECT_EQ(list(b.labels), (std::vector<int32_t>{1, 2, 3, 4, 8, 9, 0, 0}));
  EXPECT_EQ(b.real_tokens, 6);
  EXPECT_EQ(b.sequences, 3);
  ASSERT_EQ(b.scored.size(), 6u);
  EXPECT_EQ(b.scored[5].sample, 2);
  EXPECT_EQ(b.scored[5].position, 2);
  auto terms = b.terms.data<float>();
  EXPECT_EQ(terms[5], 1);       // weight
  EXPECT_EQ(terms[8 + 5], 22);  // advantage
  EXPECT_EQ(terms[6], 0);       // padding
}

TEST(Pack, TokensWithoutWeightAreReadButNotScored) {
  BatchCompletion c = completion({1, 2, 3, 4}, 0);
  c.terms[1].weight = 0;
  c.terms[2].weight = 0;
  std::vector<TokenBatch> batches = pack(std::vector<BatchGroup>{{{9}, {c}, "g"}}, {1, 8, 4});
  EXPECT_EQ(list(batches[0].labels), (std::vector<int32_t>{1, 4, 0, 0}));
  EXPECT_EQ(list(batches[0].source), (std::vector<int32_t>{0, 3, 0, 0}));
  EXPECT_EQ(batches[0].real_tokens, 4);
}

TEST(Pack, WithoutAPromptTheFirstTokenIsNotScored) {
  std::vector<TokenBatch> batches =
      pack(std::vector<BatchGroup>{{{}, {completion({1, 2, 3}, 0)}, "g"}}, {1, 8, 4});
  EXPECT_EQ(list(batches[0].labels), (std::vector<int32_t>{2, 3, 0, 0}));
}

TEST(Pack, CutsGroupsBetweenCompletionsAndLosesNone) {
  std::vector<BatchGroup> groups;
  int64_t sample = 0;
  for (int g = 0; g < 5; ++g) {
    BatchGroup group{{1, 2, 3}, {}, "g" + std::to_string(g)};
    for (int k = 0; k < 4; ++k) {
      group.completions.push_back(completion(std::vector<int32_t>(size_t(2 + g), 7), sample++));
    }
    groups.push_back(group);
  }
  std::vector<int> seen(static_cast<size_t>(sample), 0);
  for (const TokenBatch& b : pack(groups, {2, 12, 20})) {
    for (const ScoredToken& s : b.scored) ++seen[static_cast<size_t>(s.sample)];
  }
  for (size_t s = 0; s < seen.size(); ++s) EXPECT_EQ(seen[s], 2 + static_cast<int>(s / 4)) << s;
}

TEST(Pack, RefusesWhatFitsNoRow) {
  BatchCompletion wrong = completion({1, 2}, 0);
  wrong.terms.pop_back();
  testing::expect_error(Code::out_of_range, "rl.batch_row", "7 tokens", [] {
    pack(std::vector<BatchGroup>{{{1, 2, 3, 4}, {completion({1, 2, 3, 4, 5}, 0)}, "long"}},
         {1, 7, 9});
  });
  testing::expect_error(Code::invalid_argument, "rl.batch_terms", "2 terms", [&] {
    pack(std::vector<BatchGroup>{{{1}, {wrong}, "odd"}}, {1, 7, 9});
  });
}

// Two groups of a row each: scored tokens stand in their row's half, and point into its rows.
TEST(Pack, KeepsScoredTokensWithTheirGroupOfRows) {
  std::vector<BatchGroup> groups{{{5, 6}, {completion({1, 2, 3}, 0)}, "a"},
                                 {{7}, {completion({4, 8}, 1)}, "b"}};
  BatchShape shape{.rows = 2, .tokens = 4, .scored = 8, .groups = 2};
  std::vector<TokenBatch> batches = pack(groups, shape);
  ASSERT_EQ(batches.size(), 1u);
  const TokenBatch& b = batches[0];
  EXPECT_EQ(list(b.ids), (std::vector<int32_t>{5, 6, 1, 2, 7, 4, 0, 0}));
  EXPECT_EQ(list(b.source), (std::vector<int32_t>{1, 2, 3, 0, 0, 1, 0, 0}));
  EXPECT_EQ(list(b.labels), (std::vector<int32_t>{1, 2, 3, 0, 4, 8, 0, 0}));
  ASSERT_EQ(b.scored.size(), 5u);
  EXPECT_EQ(b.scored[3].sample, 1);
  EXPECT_EQ(b.scored[3].place, 4);
  EXPECT_EQ(b.terms.data<float>()[3], 0);
  EXPECT_EQ(b.terms.data<float>()[4], 1);
}

// A group's share of the scored tokens may be full where the batch's is not.
TEST(Pack, OpensABatchWhereAGroupsScoredTokensAreFull) {
  std::vector<BatchGroup> groups;
  for (int64_t i = 0; i < 3; ++i) groups.push_back({{9}, {completion({1, 2, 3}, i)}, "g"});
  BatchShape shape{.rows = 2, .tokens = 8, .scored = 6, .groups = 2};
  EXPECT_EQ(pack(groups, shape).size(), 2u);
  shape.groups = 1;
  shape.scored = 9;
  EXPECT_EQ(pack(groups, shape).size(), 1u);
}

}  // namespace
}  // namespace strata::rl
