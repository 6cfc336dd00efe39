#include "strata/rl/policy_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strata/ops/constant.h"
#include "strata/testing/errors.h"
#include "strata/testing/executor.h"
#include "strata/transform/vjp.h"

namespace strata::rl {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Inputs {
  std::vector<float> logprob, weight, advantage, old, sampler, reference;
  std::vector<int32_t> sequence;
};

struct Outcome {
  double loss;
  std::vector<double> metrics, gradient;
};

Outcome run(const Inputs& in, const PolicyLossOptions& options) {
  auto n = static_cast<int64_t>(in.logprob.size());
  std::vector<HostTensor> inputs;
  std::vector<float> zero(in.logprob.size(), 0);
  const std::vector<float>* const columns[] = {
      &in.logprob, &zero, &in.weight, &in.advantage, &in.old, &in.sampler, &in.reference};
  for (const std::vector<float>* v : columns) {
    inputs.push_back(HostTensor::of<float>({n}, v->empty() ? zero : *v));
  }
  inputs.push_back(HostTensor::of<int32_t>(
      {n}, in.sequence.empty() ? std::vector<int32_t>(in.logprob.size(), 0) : in.sequence));
  auto f = testing::trace(testing::types_of(inputs), [&](ir::Function&, const ir::Values& v) {
    PolicyLoss l = policy_loss({v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]}, options);
    return ir::Values{l.loss, l.metrics, transform::gradient(l.loss, {v[0]})[0]};
  });
  std::vector<HostTensor> out = testing::Executor().run(*f, inputs);
  Outcome o{out[0].at(0), {}, {}};
  for (int64_t i = 0; i < out[1].size(); ++i) o.metrics.push_back(out[1].at(i));
  for (int64_t i = 0; i < out[2].size(); ++i) o.gradient.push_back(out[2].at(i));
  return o;
}

// One token a row of the double reference, for every sign of A, ratio and dual clip.
TEST(PolicyLoss, EqualsTheClipReferenceInValueAndGradient) {
  for (std::optional<double> dual : {std::optional<double>(), std::optional<double>(3.0)}) {
    PolicyLossOptions options;
    options.clip = {0.2, 0.28, dual};
    options.read_old = true;
    for (double advantage : {1.0, -1.0, 0.0, 2.5}) {
      for (double ratio : {0.1, 0.5, 0.79, 0.81, 1.0, 1.27, 1.29, 2.0, 2.9, 3.5, 8.0}) {
        Inputs in;
        in.logprob = {static_cast<float>(std::log(ratio)) - 1};
        in.old = {-1};
        in.weight = {1};
        in.advantage = {static_cast<float>(advantage)};
        ClipTerm want = clip_term(advantage, std::exp(double{in.logprob[0]} + 1), options.clip);
        Outcome got = run(in, options);
        EXPECT_NEAR(got.loss, want.loss, 1e-5 * std::max(1.0, std::abs(want.loss)));
        EXPECT_NEAR(got.gradient[0], want.gradient, 1e-5 * std::max(1.0, std::abs(want.gradient)))
            << "A " << advantage << " ratio " << ratio;
        EXPECT_EQ(got.metrics[3], want.clipped_low ? 1 : 0);
        EXPECT_EQ(got.metrics[4], want.clipped_high ? 1 : 0);
      }
    }
  }
}

TEST(PolicyLoss, OnPolicyRatioIsExactlyOne) {
  Inputs in;
  in.logprob = {-0.3f, -2.7f, -11.1f};
  in.sampler = in.logprob;
  in.weight = {0.5f, 0.25f, 0.25f};
  in.advantage = {1, -2, 3};
  Outcome got = run(in, {});
  EXPECT_FLOAT_EQ(got.loss, -(0.5 - 0.5 + 0.75));
  EXPECT_EQ(got.metrics[7], 1.0);  // the largest ratio
  EXPECT_FLOAT_EQ(got.gradient[0], -0.5);
  EXPECT_FLOAT_EQ(got.gradient[1], 0.5);
  EXPECT_FLOAT_EQ(got.gradient[2], -0.75);
}

// Whatever stands at masked places, even inf and NaN, touches neither loss nor gradient.
TEST(PolicyLoss, MaskedPlacesTouchNothing) {
  PolicyLossOptions options;
  options.read_old = true;
  options.beta = 0.1;
  options.importance_cap = 2.0;
  Inputs in;
  in.logprob = {-1, kInf, kNaN, -kInf};
  in.old = {-1.1f, kNaN, -kInf, kInf};
  in.sampler = {-1.05f, -kInf, kInf, kNaN};
  in.reference = {-0.9f, kNaN, kInf, kInf};
  in.weight = {1, 0, 0, 0};
  in.advantage = {1, kNaN, kInf, 1};
  Outcome got = run(in, options);
  Inputs alone;
  alone.logprob = {-1};
  alone.old = {-1.1f};
  alone.sampler = {-1.05f};
  alone.reference = {-0.9f};
  alone.weight = {1};
  alone.advantage = {1};
  Outcome want = run(alone, options);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.gradient[0], want.gradient[0]);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(got.gradient[i], 0);
  for (size_t i = 0; i < got.metrics.size(); ++i) EXPECT_EQ(got.metrics[i], want.metrics[i]) << i;
}

TEST(PolicyLoss, ImportanceWeightIsTruncatedAndDetached) {
  PolicyLossOptions options;
  options.importance_cap = 2.0;
  Inputs in;
  in.logprob = {-1, -1};
  in.sampler = {-1.5f, -4};  // exp(0.5) and exp(3), which is cut to 2
  in.weight = {1, 1};
  in.advantage = {1, 1};
  Outcome got = run(in, options);
  EXPECT_NEAR(got.loss, -(std::exp(0.5) + 2), 1e-5);
  EXPECT_NEAR(got.gradient[0], -std::exp(0.5), 1e-5);
  EXPECT_NEAR(got.gradient[1], -2, 1e-5);
  EXPECT_NEAR(got.metrics[5], 0.5 + 3, 1e-5);  // sum of |new - sampler|
  EXPECT_NEAR(got.metrics[8], 3, 1e-5);
}

TEST(PolicyLoss, SequenceRatiosAreMeansOfTheLogRatio) {
  PolicyLossOptions options;
  options.ratio = RatioLevel::sequence;
  options.read_old = true;
  options.clip = {0.5, 0.5, {}};
  Inputs in;
  in.logprob = {-1, -2, -3, -1};
  in.old = {-1.2f, -2.1f, -3, -1.3f};
  in.sequence = {0, 0, 0, 1};
  in.weight = {1, 1, 0, 1};
  in.advantage = {1, 1, 1, 2};
  Outcome got = run(in, options);
  double first = std::exp(0.15), second = std::exp(0.3);
  EXPECT_NEAR(got.loss, -(2 * first + 2 * second), 1e-5);
  EXPECT_NEAR(got.gradient[0], -first, 1e-5);
  EXPECT_NEAR(got.gradient[3], -2 * second, 1e-5);
  EXPECT_EQ(got.gradient[2], 0);
}

// Case F4: k3 keeps its digits near 0 and its gradient is 1 - exp(r).
TEST(PolicyLoss, KlEstimators) {
  std::vector<float> r{0, 1e-4f, 0.049f, -0.051f, 0.5f, -0.5f, 5, -5, 20, -20, -1000};
  std::vector<HostTensor> inputs;
  inputs.push_back(HostTensor(DType::f32, {static_cast<int64_t>(r.size())}));
  inputs.push_back(HostTensor::of<float>({static_cast<int64_t>(r.size())}, r));
  auto f = testing::trace(testing::types_of(inputs), [&](ir::Function&, const ir::Values& v) {
    ir::Value k3 = kl_estimate(v[0], v[1], KlEstimator::k3);
    return ir::Values{k3, transform::vjp({k3}, {ops::full_like(k3, 1)}, {v[0]})[0],
                      kl_estimate(v[0], v[1], KlEstimator::k1),
                      kl_estimate(v[0], v[1], KlEstimator::k2)};
  });
  std::vector<HostTensor> out = testing::Executor().run(*f, inputs);
  EXPECT_EQ(out[0].at(0), 0);
  EXPECT_NEAR(out[0].at(1), 5.00017e-9, 1e-14);
  for (size_t i = 0; i < r.size(); ++i) {
    auto k = static_cast<int64_t>(i);
    double x = r[i], want = std::expm1(x) - x;
    EXPECT_NEAR(out[0].at(k), want, 1e-5 * std::max(1.0, want)) << x;
    EXPECT_NEAR(out[1].at(k), 1 - std::exp(x), 1e-5 * std::max(1.0, std::exp(x)));
    EXPECT_NEAR(out[2].at(k), -x, 1e-6 * std::abs(x));
    EXPECT_NEAR(out[3].at(k), x * x / 2, 1e-6 * x * x);
  }
}

TEST(PolicyLoss, RefusesOptionsOutOfRange) {
  Inputs in;
  in.logprob = {-1};
  PolicyLossOptions beta, cap;
  beta.beta = -1;
  cap.importance_cap = 0.0;
  testing::expect_error(Code::invalid_argument, "rl.beta", "beta", [&] { run(in, beta); });
  testing::expect_error(Code::invalid_argument, "rl.importance_cap", "cap", [&] { run(in, cap); });
  testing::expect_error(Code::invalid_argument, "rl.kl_estimator", "k4",
                        [] { parse_kl_estimator("k4"); });
  testing::expect_error(Code::invalid_argument, "rl.ratio_level", "word",
                        [] { parse_ratio_level("word"); });
}

}  // namespace
}  // namespace strata::rl
