// Greedy tokens of four families against HF transformers (tests/testdata/oracles), with stacked and
// with separate parameters.
#include <gtest/gtest.h>

#include "strata/sample/tiny_for_test.h"

namespace strata::sample {
namespace {

struct Case {
  std::string family;
  nn::ScanMode scan;
};

class SampleOracle : public ::testing::TestWithParam<Case> {};

TEST_P(SampleOracle, GreedyTokensEqualTransformers) {
  constexpr size_t kPrompt = 7;
  std::filesystem::path directory = test_data("oracles/" + GetParam().family);
  TinyModel tiny(directory, GetParam().scan);
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
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* family : {"llama_tied", "llama3_rope", "qwen3", "qwen3_tied"}) {
    out.push_back({family, nn::ScanMode::force});
    out.push_back({family, nn::ScanMode::off});
  }
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& c) {
  return c.param.family + (c.param.scan == nn::ScanMode::off ? "_separate" : "_stacked");
}

INSTANTIATE_TEST_SUITE_P(Families, SampleOracle, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace strata::sample
