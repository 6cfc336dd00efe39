// `strata score` against what HF transformers computes, through the files alone.
#include <gtest/gtest.h>

#include <cmath>

#include "end_to_end/binary_for_test.h"
#include "strata/base/json.h"
#include "strata/weights/tensor_source.h"

namespace strata::end_to_end {
namespace {

Request score_request(const std::string& family, const std::filesystem::path& out,
                      const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"score",
                                     "--model",
                                     oracle(family).string(),
                                     "--input",
                                     (oracle(family) / "golden.safetensors").string(),
                                     "--out",
                                     out.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return {arguments};
}

double largest_difference(const weights::TensorSource& a, const weights::TensorSource& b,
                          const std::string& name) {
  HostTensor x = weights::to_host(a.get(name)), y = weights::to_host(b.get(name));
  EXPECT_EQ(x.dims(), y.dims()) << name;
  EXPECT_EQ(x.dtype(), DType::f32) << name;
  double worst = 0;
  for (int64_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    double d = std::abs(x.at(i) - y.at(i));
    if (!(d <= worst)) worst = d;  // also keeps a NaN
  }
  return worst;
}

struct Norms {
  double error = 0, size = 0;
  int tensors = 0;
};

// Over all tensors of `want` whose name begins with `prefix`, squared.
Norms compare(const weights::TensorSource& got, const weights::TensorSource& want,
              const std::string& prefix) {
  Norms out;
  for (const weights::TensorView& view : want.tensors()) {
    if (!view.name.starts_with(prefix)) continue;
    const weights::TensorView* mine = got.find(view.name);
    EXPECT_NE(mine, nullptr) << view.name;
    if (mine == nullptr) continue;
    EXPECT_EQ(mine->dims, view.dims) << view.name;
    HostTensor a = weights::to_host(*mine), b = weights::to_host(view);
    for (int64_t i = 0; i < b.size(); ++i) {
      out.error += std::pow(a.at(i) - b.at(i), 2);
      out.size += std::pow(b.at(i), 2);
    }
    ++out.tensors;
  }
  return out;
}

struct Case {
  std::string name, family;
  std::vector<std::string> options;
};

class ScoreCommand : public ::testing::TestWithParam<Case> {};

TEST_P(ScoreCommand, EqualsTransformers) {
  const Case& c = GetParam();
  Scratch scratch;
  std::vector<std::string> options = c.options;
  options.insert(options.end(), {"--grads", "--json"});
  Outcome o = run(score_request(c.family, scratch / "y.safetensors", options));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(scratch.entries(), std::vector<std::string>{"y.safetensors"});

  auto got = weights::open_source(scratch / "y.safetensors");
  auto want = weights::open_source(oracle(c.family) / "golden.safetensors");
  EXPECT_LE(largest_difference(*got, *want, "logits"), 2e-5);
  EXPECT_LE(largest_difference(*got, *want, "token_logprobs"), 2e-5);
  EXPECT_LE(largest_difference(*got, *want, "loss"), 1e-5);
  Norms n = compare(*got, *want, "grad.");
  EXPECT_LE(std::sqrt(n.error / n.size), 1e-5);
  // Nothing but these: no alias of a tied head, no stacked name.
  EXPECT_EQ(got->tensors().size(), static_cast<size_t>(n.tensors) + 3);

  Json report = parse_json(o.out, "stdout");
  EXPECT_EQ(report["rows"], 2);
  EXPECT_EQ(report["tokens"], 70);
  EXPECT_NEAR(report["loss"].get<double>(), weights::to_host(want->get("loss")).at(0), 1e-5);
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* family : {"llama_tied", "llama3_rope", "qwen3", "qwen3_tied"}) {
    out.push_back({std::string(family) + "_scanned", family, {"--scan", "force"}});
    out.push_back({std::string(family) + "_unrolled", family, {"--scan", "off"}});
  }
  out.push_back(
      {"qwen3_axis_1", "qwen3", {"--scan", "force", "--param-scan-axis", "1", "--remat", "full"}});
  out.push_back({"llama_tied_axis_last", "llama_tied", {"--param-scan-axis", "-1"}});
  out.push_back({"qwen3_mesh", "qwen3", {"--mesh", "fsdp=2,tensor=2", "--shard", "mlp = fsdp"}});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Oracles, ScoreCommand, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

TEST(ScoreCommand, Bf16IsNearAndTheSecondRunCompilesNothing) {
  Scratch scratch;
  Request request =
      score_request("qwen3", scratch / "y.safetensors", {"--dtype", "bf16", "--json"});
  request.cache = scratch / "cache";
  Outcome first = run(request), second = run(request);
  ASSERT_EQ(first.status, 0) << first.err;
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(parse_json(first.out, "stdout")["compiles"], 1);
  EXPECT_EQ(parse_json(second.out, "stdout")["compiles"], 0);
  auto got = weights::open_source(scratch / "y.safetensors");
  auto want = weights::open_source(oracle("qwen3") / "golden.safetensors");
  Norms n = compare(*got, *want, "logits");
  double relative = std::sqrt(n.error / n.size);
  EXPECT_LE(relative, 2e-2);
  EXPECT_GE(relative, 1e-5);  // it was bf16 indeed
  EXPECT_EQ(got->tensors().size(), 3u);
}

}  // namespace
}  // namespace strata::end_to_end
