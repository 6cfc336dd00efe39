// Greedy tokens of four families against HF transformers (tests/testdata/oracles), with stacked and
// with separate parameters.
#include <gtest/gtest.h>

#include <cmath>

#include "strata/sample/tiny_for_test.h"

namespace strata::sample {
namespace {

struct Case {
  std::string family;
  nn::ScanMode scan;
  testing::CpuPlugin plugin = testing::CpuPlugin::newer;
};

class SampleOracle : public ::testing::TestWithParam<Case> {};

// The log-probability of one new token after beginnings of input_ids.
void expect_oracle_logprobs(Sampler& sampler, const weights::TensorSource& golden,
                            const runtime::TablePtr& parameters) {
  HostTensor ids = weights::to_host(golden.get("input_ids"));
  HostTensor logits = weights::to_host(golden.get("logits"));
  int64_t vocabulary = logits.dims()[2];
  for (int64_t length : {1, 2, 17, 40, 70}) {
    auto prompt = ids.data<int32_t>().first(static_cast<size_t>(length));
    Result r =
        generate(sampler, {greedy("r", {prompt.begin(), prompt.end()}, 1)}, parameters).at(0);
    int64_t first = (length - 1) * vocabulary;
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(logits.at(first + v));
    EXPECT_NEAR(r.logprobs[0], logits.at(first + r.tokens[0]) - std::log(sum), 2e-5) << length;
  }
}

TEST_P(SampleOracle, GreedyTokensEqualTransformers) {
  constexpr size_t kPrompt = 7;
  std::filesystem::path directory = test_data("oracles/" + GetParam().family);
  TinyModel tiny(directory, GetParam().scan, GetParam().plugin);
  auto golden = weights::open_source(directory / "golden.safetensors");
  HostTensor want = weights::to_host(golden->get("greedy"));
  auto count = static_cast<size_t>(want.dims()[1]);
  std::vector<Request> requests;
  for (size_t row = 0; row < 2; ++row) {
    auto ids = want.data<int32_t>().subspan(row * count, kPrompt);
    requests.push_back(greedy("row " + std::to_string(row), {ids.begin(), ids.end()},
                              static_cast<int64_t>(count - kPrompt)));
  }
  Sampler sampler(tiny.setup({.rows = {2}}));
  std::vector<Result> results = generate(sampler, std::move(requests), tiny.parameters);
  ASSERT_EQ(results.size(), 2u);
  for (size_t row = 0; row < 2; ++row) {
    auto rest = want.data<int32_t>().subspan(row * count + kPrompt, count - kPrompt);
    EXPECT_EQ(results[row].tokens, std::vector<int32_t>(rest.begin(), rest.end()));
    EXPECT_EQ(results[row].finish_reason, FinishReason::length);
  }
  expect_oracle_logprobs(sampler, *golden, tiny.parameters);
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* family : {"llama_tied", "llama3_rope", "qwen3", "qwen3_tied"}) {
    out.push_back({family, nn::ScanMode::force});
    out.push_back({family, nn::ScanMode::off});
  }
  out.push_back({"qwen3", nn::ScanMode::off, testing::CpuPlugin::older});
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& c) {
  return c.param.family + (c.param.scan == nn::ScanMode::off ? "_separate_" : "_stacked_") +
         std::string(testing::name_of(c.param.plugin));
}

INSTANTIATE_TEST_SUITE_P(Families, SampleOracle, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace strata::sample
