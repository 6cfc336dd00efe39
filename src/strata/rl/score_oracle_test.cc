// Logits, loss, log-probabilities and the whole gradient tree against what HF transformers computes
// in float64 (tests/testdata/oracles), scanned and unrolled, under every remat policy.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "strata/models/registry.h"
#include "strata/rl/score.h"
#include "strata/testing/executor.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

fs::path oracle(const std::string& name) {
  return fs::path(STRATA_SOURCE_DIR) / "tests/testdata/oracles" / name;
}

// The members of a slot, stacked along dim 0 (a plain slot has one member and no layer dim).
HostTensor gather(const nn::Structure& s, size_t slot, const weights::TensorSource& source,
                  const std::string& prefix) {
  HostTensor out(DType::f32, s.manifest().slots()[slot].type.sizes());
  std::byte* at = out.bytes();
  for (const nn::Param* p : s.members(slot)) {
    const weights::TensorView& view = source.get(prefix + p->path());
    std::memcpy(at, view.bytes.data(), view.bytes.size());
    at += view.bytes.size();
  }
  return out;
}

double max_difference(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a.at(i) - b.at(i)));
  return worst;
}

struct Case {
  std::string family;
  nn::ScanMode scan;
  std::string remat;
};

class ScoreOracle : public ::testing::TestWithParam<Case> {};

TEST_P(ScoreOracle, EqualsTransformers) {
  const Case& c = GetParam();
  auto model = models::build_model(oracle(c.family));
  nn::Structure structure(*model, {c.scan, 0, ops::parse_remat(c.remat)}, model->ties());
  auto weights = weights::open_source(oracle(c.family) / "model.safetensors");
  auto golden = weights::open_source(oracle(c.family) / "golden.safetensors");
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < structure.manifest().size(); ++i) {
    inputs.push_back(gather(structure, i, *weights, ""));
  }
  inputs.push_back(weights::to_host(golden->get("input_ids")));
  ScoreOptions options{inputs.back().dims()[0], inputs.back().dims()[1], true, DType::f32};
  auto function = score_function(*model, structure, options);
  std::vector<HostTensor> results = testing::Executor().run(*function, inputs);

  EXPECT_LE(max_difference(results[0], weights::to_host(golden->get("logits"))), 2e-5);
  EXPECT_LE(max_difference(results[1], weights::to_host(golden->get("token_logprobs"))), 2e-5);
  EXPECT_NEAR(results[2].at(0), weights::to_host(golden->get("loss")).at(0), 1e-5);
  double error = 0, norm = 0;
  for (size_t i = 0; i < structure.manifest().size(); ++i) {
    HostTensor want = gather(structure, i, *golden, "grad.");
    for (int64_t k = 0; k < want.size(); ++k) {
      double d = results[3 + i].at(k) - want.at(k);
      error += d * d;
      norm += want.at(k) * want.at(k);
    }
  }
  EXPECT_LE(std::sqrt(error / norm), 1e-5);
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* family : {"llama_tied", "llama3_rope", "qwen3", "qwen3_tied"}) {
    out.push_back({family, nn::ScanMode::off, "none"});
    for (const char* remat : {"none", "dots", "full"}) {
      out.push_back({family, nn::ScanMode::force, remat});
    }
  }
  out.push_back({"qwen3", nn::ScanMode::off, "dots"});
  out.push_back({"qwen3", nn::ScanMode::off, "full"});
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& c) {
  std::string form = c.param.scan == nn::ScanMode::off ? "_unrolled_" : "_scanned_";
  return c.param.family + form + c.param.remat;
}

INSTANTIATE_TEST_SUITE_P(Families, ScoreOracle, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace strata::rl
