// Log-probabilities and gradients against float64, whatever the chunks, and the memory that
// chunks bound.
#include "strata/nn/token_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "strata/ops/arithmetic.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/testing/executor.h"
#include "strata/transform/vjp.h"

namespace strata::nn {
namespace {

constexpr int64_t kTokens = 10, kHidden = 6, kVocabulary = 17;

// Results: log-probs, entropies, gradients of hidden and head for the cotangent `weights`.
std::unique_ptr<ir::Function> program(int64_t tokens, int64_t vocabulary, int64_t chunk) {
  std::vector<ir::Type> types{{DType::f32, {tokens, kHidden}},
                              {DType::f32, {vocabulary, kHidden}},
                              {DType::i32, {tokens}},
                              {DType::f32, {tokens}},
                              {DType::f32, {}}};
  return testing::trace(types, [&](ir::Function&, const ir::Values& v) {
    TokenScores s =
        token_scores(v[0], v[1], v[2], {.temperature = v[4], .chunk = chunk, .entropy = true});
    ir::Value loss = ops::reduce_sum(s.logprobs * v[3], {0});
    ir::Values g = transform::gradient(loss, {v[0], v[1]});
    return ir::Values{s.logprobs, s.entropy, g[0], g[1]};
  });
}

std::vector<HostTensor> inputs() {
  std::vector<HostTensor> out;
  for (const Dims& dims : {Dims{kTokens, kHidden}, Dims{kVocabulary, kHidden}}) {
    HostTensor t(DType::f32, dims);
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, 2 * std::sin(1.7 * static_cast<double>(i) + 1));
    out.push_back(std::move(t));
  }
  HostTensor labels(DType::i32, {kTokens}), weights(DType::f32, {kTokens});
  for (int64_t i = 0; i < kTokens; ++i) {
    labels.set(i, static_cast<double>((i * 7 + 16) % kVocabulary));
    weights.set(i, i == 3 ? 0 : 0.5 + static_cast<double>(i));
  }
  out.push_back(std::move(labels));
  out.push_back(std::move(weights));
  out.push_back(HostTensor::scalar(0.7f));
  return out;
}

// The same in float64, from log p = z_label − log Σ exp z and d log p / dz = onehot − p.
std::vector<std::vector<double>> reference(const std::vector<HostTensor>& in) {
  std::vector<std::vector<double>> out{std::vector<double>(kTokens), std::vector<double>(kTokens),
                                       std::vector<double>(kTokens * kHidden),
                                       std::vector<double>(kVocabulary * kHidden)};
  double temperature = in[4].at(0);
  for (int64_t t = 0; t < kTokens; ++t) {
    std::vector<double> z(kVocabulary);
    double sum = 0;
    for (int64_t v = 0; v < kVocabulary; ++v) {
      for (int64_t e = 0; e < kHidden; ++e) {
        z[v] += in[0].at(t * kHidden + e) * in[1].at(v * kHidden + e) / temperature;
      }
      sum += std::exp(z[v]);
    }
    auto label = static_cast<int64_t>(in[2].at(t));
    out[0][t] = z[label] - std::log(sum);
    for (int64_t v = 0; v < kVocabulary; ++v) {
      double p = std::exp(z[v]) / sum;
      out[1][t] -= p * std::log(p);
      double dz = in[3].at(t) * ((v == label ? 1 : 0) - p) / temperature;
      for (int64_t e = 0; e < kHidden; ++e) {
        out[2][t * kHidden + e] += dz * in[1].at(v * kHidden + e);
        out[3][v * kHidden + e] += dz * in[0].at(t * kHidden + e);
      }
    }
  }
  return out;
}

TEST(TokenScores, AreRightInChunksOfAnySize) {
  testing::Executor executor;
  auto in = inputs();
  auto expected = reference(in);
  for (int64_t chunk : {0, 1, 3, 4, 9, 10, 1000}) {
    auto got = executor.run(*program(kTokens, kVocabulary, chunk), in);
    for (size_t r = 0; r < expected.size(); ++r) {
      ASSERT_EQ(got[r].size(), static_cast<int64_t>(expected[r].size()));
      for (int64_t i = 0; i < got[r].size(); ++i) {
        double want = expected[r][static_cast<size_t>(i)];
        EXPECT_NEAR(got[r].at(i), want, 3e-5 * std::max(1.0, std::abs(want)))
            << "chunk " << chunk << ", result " << r << ", element " << i;
      }
    }
  }
}

// The same tokens in two groups of five.
TEST(TokenScores, OfGroupsAreThoseOfTheirTokens) {
  testing::Executor executor;
  auto in = inputs();
  auto expected = reference(in);
  for (int64_t chunk : {0, 2, 5}) {
    std::vector<ir::Type> types;
    for (const HostTensor& t : in) types.push_back({t.dtype(), t.dims()});
    auto f = testing::trace(types, [&](ir::Function&, const ir::Values& v) {
      ir::Value hidden = ops::reshape(v[0], {2, kTokens / 2, kHidden});
      TokenScores s = token_scores(hidden, v[1], ops::reshape(v[2], {2, kTokens / 2}),
                                   {.temperature = v[4], .chunk = chunk, .entropy = true});
      ir::Value logprobs = ops::reshape(s.logprobs, {kTokens});
      ir::Values g = transform::gradient(ops::reduce_sum(logprobs * v[3], {0}), {v[0], v[1]});
      return ir::Values{logprobs, ops::reshape(s.entropy, {kTokens}), g[0], g[1]};
    });
    auto got = executor.run(*f, in);
    for (size_t r = 0; r < expected.size(); ++r) {
      for (int64_t i = 0; i < got[r].size(); ++i) {
        double want = expected[r][static_cast<size_t>(i)];
        ASSERT_NEAR(got[r].at(i), want, 3e-5 * std::max(1.0, std::abs(want)))
            << "chunk " << chunk << ", result " << r << ", element " << i;
      }
    }
  }
}

// 4,096 tokens of 65,536 words would be 1 GiB of logits, each time they are formed.
TEST(TokenScores, NeverHoldMoreThanTheirChunks) {
  testing::Executor executor;
  auto temporaries = [&](int64_t chunk) {
    auto memory = executor.compile(*program(4096, 65536, chunk)).memory_stats();
    return memory.value->temporaries;
  };
  EXPECT_LT(temporaries(0), int64_t{900} << 20);
  EXPECT_LT(temporaries(128), int64_t{200} << 20);
}

}  // namespace
}  // namespace strata::nn
