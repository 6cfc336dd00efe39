// A model directory with adapters, as every command takes it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/testing/random.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

class Adapters : public ::testing::Test {
 protected:
  // `lora/` is the oracle's model with adapters of rank 3 on every q_proj and down_proj, and on the
  // head, which the loss multiplies with itself.
  void SetUp() override {
    fs::create_directories(at("lora"));
    Json config = read_json(oracle("qwen3") / "config.json");
    Json lora = {{"kind", "lora"}, {"rank", 3}, {"alpha", 4.5}, {"rslora", false}};
    lora["targets"] = {"*.q_proj", "*.down_proj", "lm_head"};
    config["strata_transforms"] = Json::array({lora});
    write_file_atomically(at("lora/config.json"), config.dump());
    write_weights(at("lora/model.safetensors"), "");
    HostTensor row = HostTensor::of<int32_t>({1, 5}, {3, 14, 15, 9, 2});
    weights::NamedTensor named{"input_ids", &row};
    weights::write_safetensors(at("x.safetensors"), std::span(&named, 1));
  }

  // Without the tensor `left_out`.
  void write_weights(const fs::path& path, const std::string& left_out) const {
    auto base = weights::open_source(oracle("qwen3") / "model.safetensors");
    std::vector<std::pair<std::string, HostTensor>> tensors;
    testing::Random random(7);
    for (const weights::TensorView& t : base->tensors()) {
      tensors.emplace_back(t.name, weights::to_host(t));
      bool adapted = t.name.find("q_proj.weight") != std::string::npos ||
                     t.name.find("down_proj.weight") != std::string::npos ||
                     t.name == "lm_head.weight";
      if (!adapted) continue;
      std::string stem = t.name.substr(0, t.name.size() - 6);
      tensors.emplace_back(stem + "lora_A.weight",
                           random.tensor(DType::f32, {3, t.dims[1]}, -0.1, 0.1));
      tensors.emplace_back(stem + "lora_B.weight",
                           random.tensor(DType::f32, {t.dims[0], 3}, -0.1, 0.1));
    }
    std::vector<weights::NamedTensor> named;
    for (const auto& [name, tensor] : tensors) {
      if (name != left_out) named.push_back({name, &tensor});
    }
    weights::write_safetensors(path, named);
  }

  fs::path at(const std::string& name) const { return scratch_ / name; }
  Outcome convert(const std::string& from, const std::string& to, std::vector<std::string> more) {
    more.insert(more.begin(), {"convert", at(from).string(), at(to).string()});
    return run({more});
  }
  Outcome score(const std::string& model, std::vector<std::string> more = {}) {
    fs::remove(at("out.safetensors"));
    more.insert(more.begin(),
                {"score", "--model", at(model).string(), "--input", at("x.safetensors").string(),
                 "--out", at("out.safetensors").string()});
    return run({more});
  }
  std::vector<double> logits(const std::string& model, std::vector<std::string> more = {}) {
    Outcome o = score(model, std::move(more));
    EXPECT_EQ(o.status, 0) << o.err;
    if (o.status != 0) return {};
    HostTensor t = weights::to_host(weights::open_source(at("out.safetensors"))->get("logits"));
    std::vector<double> out;
    for (int64_t i = 0; i < t.size(); ++i) out.push_back(t.at(i));
    return out;
  }

  Scratch scratch_;
};

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return 1e9;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST_F(Adapters, ScoreAlikeInEveryForm) {
  const std::vector<double> want = logits("lora");
  EXPECT_LT(difference(logits("lora", {"--scan", "off"}), want), 1e-5);
  EXPECT_LT(difference(logits("lora", {"--mesh", "fsdp=2,tensor=2"}), want), 1e-5);
  Outcome stacked = convert("lora", "stacked", {"--to", "stacked", "--axis", "1"});
  ASSERT_EQ(stacked.status, 0) << stacked.err;
  EXPECT_EQ(logits("stacked"), want);
  // Merged from either form, for programs that know nothing of adapters.
  for (const char* from : {"lora", "stacked"}) {
    std::string merged = std::string(from) + "_merged";
    Outcome o = convert(from, merged, {"--to", "hf", "--json"});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(parse_json(o.out, "stdout")["form"], "one tensor a layer, adapters merged");
    EXPECT_FALSE(read_json(at(merged) / "config.json").contains("strata_transforms"));
    auto plain = weights::open_source(oracle("qwen3") / "model.safetensors");
    EXPECT_EQ(weights::open_source(at(merged))->tensors().size(), plain->tensors().size());
    EXPECT_LT(difference(logits(merged), want), 1e-4);
  }
  fs::create_directories(at("base"));
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy(oracle("qwen3") / file, at("base"));
  }
  EXPECT_GT(difference(logits("base"), want), 0.01);
}

// What PEFT saved computes here what it computed there (tools/make_peft_golden.py).
TEST_F(Adapters, OfPeftGiveItsLogits) {
  const fs::path peft = oracle("qwen3_peft");
  Json saved = read_json(peft / "adapter_config.json");
  Json lora = {{"kind", "lora"}, {"rank", saved["r"]}, {"alpha", saved["lora_alpha"]}};
  lora["rslora"] = saved["use_rslora"];
  lora["targets"] = Json::array();
  for (const Json& part : saved["target_modules"]) {
    lora["targets"].push_back("*." + part.get<std::string>());
  }
  fs::create_directories(at("peft"));
  Json config = read_json(oracle("qwen3") / "config.json");
  config["strata_transforms"] = Json::array({lora});
  write_file_atomically(at("peft/config.json"), config.dump());
  std::vector<std::pair<std::string, HostTensor>> tensors;
  auto base = weights::open_source(oracle("qwen3") / "model.safetensors");
  for (const weights::TensorView& t : base->tensors()) {
    tensors.emplace_back(t.name, weights::to_host(t));
  }
  const std::string prefix = "base_model.model.";
  auto adapter = weights::open_source(peft / "adapter_model.safetensors");
  for (const weights::TensorView& t : adapter->tensors()) {
    tensors.emplace_back(t.name.substr(prefix.size()), weights::to_host(t));
  }
  std::vector<weights::NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, &tensor});
  weights::write_safetensors(at("peft/model.safetensors"), named);
  fs::copy_file(peft / "golden.safetensors", at("x.safetensors"),
                fs::copy_options::overwrite_existing);
  HostTensor want = weights::to_host(weights::open_source(at("x.safetensors"))->get("logits"));
  std::vector<double> golden;
  for (int64_t i = 0; i < want.size(); ++i) golden.push_back(want.at(i));
  EXPECT_LT(difference(logits("peft"), golden), 2e-4);
}

TEST_F(Adapters, ShowInThePlan) {
  Outcome o = run({{"plan", "--model", at("lora").string(), "--no-compile"}});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("q_proj.lora_A.weight"), std::string::npos);
  // Only adapters have optimiser state.
  EXPECT_NE(o.out.find("adam.m/model.layers[0:4:1].self_attn.q_proj.lora_B.weight"),
            std::string::npos)
      << o.out;
  EXPECT_EQ(o.out.find("q_proj.weight", o.out.find("adam.m/")), std::string::npos) << o.out;
}

TEST_F(Adapters, AreNeverDropped) {
  fs::remove(at("lora/model.safetensors"));
  write_weights(at("lora/model.safetensors"), "model.layers.1.mlp.down_proj.lora_B.weight");
  expect_error(score("lora"), 3, "weights.mismatch", {"model.layers.1.mlp.down_proj.lora_B"});
  fs::remove(at("lora/model.safetensors"));
  write_weights(at("lora/model.safetensors"), "");
  fs::copy_file(oracle("qwen3") / "config.json", at("lora/config.json"),
                fs::copy_options::overwrite_existing);
  expect_error(score("lora"), 3, "weights.mismatch", {"lora_A"});
}

}  // namespace
}  // namespace strata::end_to_end
