// The harness itself: it must fail where it should.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "strata/ops/all_ops.h"
#include "strata/ops/elementwise.h"
#include "strata/testing/golden.h"
#include "strata/testing/op_harness.h"
#include "strata/testing/random.h"
#include "strata/testing/tolerances.h"

namespace strata::testing {
namespace {

using ir::Function;
using ir::Values;

TEST(Tolerances, NearIsByTypeAndKnowsInfinities) {
  EXPECT_TRUE(near(1.0000001, 1, value_tolerance(DType::f32)));
  EXPECT_FALSE(near(1.0000001, 1, value_tolerance(DType::f64)));
  EXPECT_FALSE(near(3, 2, value_tolerance(DType::i32)));
  EXPECT_TRUE(near(NAN, NAN, {}));
  EXPECT_FALSE(near(NAN, 1, {1, 1}));
  EXPECT_FALSE(near(INFINITY, -INFINITY, {1, 1}));
  EXPECT_TRUE(near(INFINITY, INFINITY, {}));
}

TEST(Random, IsTheSameEverywhere) {
  Random random(0);
  EXPECT_EQ(random.bits(), 0xE220A8397B1DCDAFu);  // the published first output of seed 0
  HostTensor t = Random(3).tensor(DType::i32, {100}, -2, 3);
  for (int64_t i = 0; i < t.size(); ++i) {
    EXPECT_GE(t.at(i), -2);
    EXPECT_LT(t.at(i), 3);
  }
}

TEST(ForEachIndex, IsRowMajor) {
  std::vector<int64_t> seen;
  for_each_index({2, 3}, [&](const Dims& i) { seen.push_back(offset({2, 3}, i)); });
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

// The messages of the failures inside `action`, which do not count as the test's own.
std::vector<std::string> failures_of(const std::function<void()>& action) {
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    action();
  }
  std::vector<std::string> messages;
  for (int i = 0; i < results.size(); ++i) {
    messages.emplace_back(results.GetTestPartResult(i).message());
  }
  return messages;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

OpRow sine_row() {
  return {.op = &ops::kSine,
          .what = "",
          .inputs = {{.dims = {4}}},
          .build = [](Function&, const Values& v) -> Values { return {ops::sine(v[0])}; },
          .reference = [](const Arrays& v) -> Arrays {
            return {map(v[0], [](double x) { return std::sin(x); })};
          }};
}

TEST(OpHarness, FailsOnWrongValues) {
  OpRow row = sine_row();
  row.reference = [](const Arrays& v) -> Arrays {
    return {map(v[0], [](double x) { return std::sin(x) + 1e-4; })};
  };
  Executor executor;
  check_values(executor, sine_row());
  auto failures = failures_of([&] { check_values(executor, row); });
  ASSERT_EQ(failures.size(), 4u);  // every element
  EXPECT_TRUE(contains(failures[0], "reference")) << failures[0];
  EXPECT_TRUE(contains(failures[0], "STRATA_TEST_SEED=")) << failures[0];
}

TEST(OpHarness, FailsOnWrongGradients) {
  OpRow row = sine_row();
  row.build = [](Function&, const Values& v) -> Values {
    return {ops::multiply(ops::sine(v[0]), ops::stop_gradient(v[0]))};
  };
  Executor executor;
  check_gradient(executor, sine_row());
  auto failures = failures_of([&] { check_gradient(executor, row); });
  ASSERT_EQ(failures.size(), 3u);  // every direction
  EXPECT_TRUE(contains(failures[0], "differences")) << failures[0];
}

TEST(OpHarness, FailsOnOpsWithoutARow) {
  auto failures = failures_of([] { check_coverage({sine_row()}); });
  EXPECT_EQ(failures.size(), ops::all_ops().size() - 1);
  OpRow other = sine_row();
  other.op = &ops::kCosine;
  failures = failures_of([&] { check_coverage({other}); });
  EXPECT_TRUE(contains(failures[0], "does not hold its op")) << failures[0];
}

TEST(Golden, NamesTheFirstLineThatDiffers) {
  auto failures = failures_of([] { expect_golden("testing/two_lines.txt", "one\nzwei\n"); });
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_TRUE(contains(failures[0], "two_lines.txt:2")) << failures[0];
  expect_golden("testing/two_lines.txt", "one\ntwo\n");
}

}  // namespace
}  // namespace strata::testing
