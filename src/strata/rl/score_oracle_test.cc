// Logits, loss, log-probabilities and the whole gradient tree against what HF transformers computes
// in float64 (tests/testdata/oracles), scanned and unrolled, under every remat policy.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/rl/score.h"
#include "strata/runtime/compile.h"
#include "strata/runtime/executor.h"
#include "strata/testing/executor.h"
#include "strata/transform/lower.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

fs::path oracle(const std::string& name) {
  return fs::path(STRATA_SOURCE_DIR) / "tests/testdata/oracles" / name;
}

double max_difference(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a.at(i) - b.at(i)));
  return worst;
}

struct Case {
  std::string family;
  nn::ScanMode scan = nn::ScanMode::force;
  std::string remat = "none";
  int64_t axis = 0;
  std::string mesh = {};
  testing::CpuPlugin plugin = testing::CpuPlugin::newer;
};

// The results of the scoring program with gradients, for the oracle's ids.
std::vector<runtime::Array> score(const models::CausalLm& model, const nn::Structure& structure,
                                  const Case& c) {
  auto devices = static_cast<int>(structure.mesh().size());
  testing::Executor executor(c.plugin, devices);
  runtime::Compiler compiler(executor.client(), {.cache_dir = {}});
  auto weights = weights::open_source(oracle(c.family) / "model.safetensors");
  std::vector<runtime::Array> inputs =
      checkpoint::load_parameters(structure.manifest(), *weights, executor.client(),
                                  {.mesh = structure.mesh(), .ignorable = model.ignorable()});
  auto golden = weights::open_source(oracle(c.family) / "golden.safetensors");
  HostTensor ids = weights::to_host(golden->get("input_ids"));
  ScoreOptions options{ids.dims()[0], ids.dims()[1], true, DType::f32};
  auto function = score_function(model, structure, options);
  auto spec = runtime::ArraySpec::sharded(score_input_type(structure.placement(), options).type,
                                          structure.mesh(), "input_ids");
  inputs.push_back(runtime::Array::put(executor.client(), spec, {ids.bytes(), ids.byte_size()}));
  runtime::Executor run(compiler.compile(transform::program_text(*function),
                                         runtime::request_for(*function, "score")));
  std::vector<runtime::Argument> arguments;
  for (const runtime::Array& a : inputs) arguments.push_back(runtime::Argument::borrow(a));
  return run.run(arguments);
}

class ScoreOracle : public ::testing::TestWithParam<Case> {};

TEST_P(ScoreOracle, EqualsTransformers) {
  const Case& c = GetParam();
  auto model = models::build_model(oracle(c.family));
  nn::Structure structure(*model, {c.scan, c.axis, ops::parse_remat(c.remat)}, model->ties());
  structure.place({.mesh = sharding::Mesh::parse(c.mesh)}, model->sharding_rules());
  std::vector<runtime::Array> results = score(*model, structure, c);

  auto golden = weights::open_source(oracle(c.family) / "golden.safetensors");
  EXPECT_LE(max_difference(results[0].get(), weights::to_host(golden->get("logits"))), 2e-5);
  EXPECT_LE(max_difference(results[1].get(), weights::to_host(golden->get("token_logprobs"))),
            2e-5);
  EXPECT_NEAR(results[2].get().at(0), weights::to_host(golden->get("loss")).at(0), 1e-5);
  checkpoint::ArrayRefs gradients;
  for (size_t i = 3; i < results.size(); ++i) gradients.push_back(&results[i]);
  checkpoint::TreeReader reader(structure.manifest().slots(), gradients);
  double error = 0, norm = 0;
  for (const weights::TensorSpec& spec : reader.specs()) {
    HostTensor want = weights::to_host(golden->get("grad." + spec.name));
    HostTensor got(spec.dtype, spec.dims);
    std::byte* at = got.bytes();
    reader.read(spec.name, [&](std::span<const std::byte> piece) {
      at = std::copy(piece.begin(), piece.end(), at);
    });
    for (int64_t k = 0; k < want.size(); ++k) {
      double d = got.at(k) - want.at(k);
      error += d * d;
      norm += want.at(k) * want.at(k);
    }
  }
  EXPECT_GT(norm, 0);
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
  for (const char* family : {"llama_tied", "llama3_rope", "qwen3", "qwen3_tied"}) {
    out.push_back({family, nn::ScanMode::force, "dots", 1});
    for (int64_t axis : {0, 1}) {
      out.push_back({family, nn::ScanMode::force, "dots", axis, "fsdp=2,tensor=2"});
    }
  }
  out.push_back({"qwen3", nn::ScanMode::force, "none", 2});
  out.push_back({"qwen3", nn::ScanMode::force, "full", -1, "layers=2,tensor=2"});
  out.push_back({"qwen3", nn::ScanMode::off, "none", 0, "data=2,fsdp=2"});
  for (const char* mesh : {"", "fsdp=2,layers=2"}) {
    out.push_back({"qwen3", nn::ScanMode::force, "offload:mlp_hidden", 0, mesh});
  }
  for (const char* mesh : {"", "fsdp=2,tensor=2"}) {
    out.push_back({"qwen3", nn::ScanMode::force, "dots", 0, mesh, testing::CpuPlugin::older});
  }
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& c) {
  std::string form = c.param.scan == nn::ScanMode::off ? "_unrolled_" : "_scanned_";
  std::string name = c.param.family + form;
  for (char ch : c.param.remat) name += std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
  if (c.param.axis != 0)
    name += c.param.axis > 0 ? "_axis" + std::to_string(c.param.axis) : "_last";
  for (char ch : "_" + c.param.mesh)
    name += std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
  if (c.param.plugin == testing::CpuPlugin::older) name += "_older";
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, ScoreOracle, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace strata::rl
