// 19 spellings of rotary settings and head_dim over one weight set, against float64
// (tests/testdata/models, written by tools/make_rope_cases.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "strata/models/config_reader.h"
#include "strata/models/registry.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/shape.h"
#include "strata/testing/executor.h"

namespace strata::models {
namespace {

namespace fs = std::filesystem;

const fs::path kData = fs::path(STRATA_SOURCE_DIR) / "tests/testdata/models";

// The float32 tensors of a small, valid safetensors file. (Room models may not include weights.)
class Tensors {
 public:
  explicit Tensors(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    uint64_t size = 0;
    std::memcpy(&size, bytes_.data(), sizeof size);
    header_ = Json::parse(bytes_.substr(sizeof size, size));
    start_ = sizeof size + size;
  }

  HostTensor get(const std::string& name) const {
    const Json& entry = header_.at(name);
    HostTensor t(DType::f32, entry.at("shape").get<Dims>());
    auto at = entry.at("data_offsets").at(0).get<size_t>();
    std::memcpy(t.bytes(), bytes_.data() + start_ + at, t.byte_size());
    return t;
  }

 private:
  std::string bytes_;
  Json header_;
  size_t start_ = 0;
};

std::vector<float> last_logits(const CausalLm& model, const std::vector<int32_t>& ids) {
  nn::Structure structure(model, {nn::ScanMode::off, 0, {}}, model.ties());
  Tensors source(kData / "rope.safetensors");
  std::vector<HostTensor> inputs;
  for (const sharding::Slot& s : structure.manifest().slots()) {
    inputs.push_back(source.get(s.name));
    EXPECT_EQ(inputs.back().dims(), s.type.sizes()) << s.name;
  }
  auto length = static_cast<int64_t>(ids.size());
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < length; ++i) positions.push_back(i);
  inputs.push_back(HostTensor::of<int32_t>({1, length}, ids));
  inputs.push_back(HostTensor::of<int32_t>({1, length}, positions));
  auto f = testing::trace(
      testing::types_of(inputs), [&](ir::Function& g, const ir::Values& v) -> ir::Values {
        nn::Context context(g, structure, {v.begin(), v.end() - 2});
        ir::Value ones = ops::full(g, DType::i32, {1, length}, 1);
        LmOutput out = model.forward(context, {v[v.size() - 2], v.back(), ones});
        ir::Value last = ops::slice_axis(out.hidden, 1, length - 1, length);
        return {ops::linear(last, model.head(context))};
      });
  std::vector<HostTensor> logits = testing::Executor().run(*f, inputs);
  std::span<const float> data = logits[0].data<float>();
  return {data.begin(), data.end()};
}

void expect_right(const Json& c, const std::vector<int32_t>& ids) {
  const Json& config = c.at("config");
  nn::RotaryTable table = read_rotary(ConfigReader(config, "config"), 16, 1.0);
  auto inv_freq = c.at("inv_freq").get<std::vector<double>>();
  ASSERT_EQ(table.inv_freq.size(), inv_freq.size());
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    EXPECT_NEAR(table.inv_freq[i] / inv_freq[i], 1, 1e-13) << i;
  }
  EXPECT_DOUBLE_EQ(table.attention_factor, c.at("attention_factor").get<double>());
  auto want = c.at("last_logits").get<std::vector<double>>();
  std::vector<float> got = last_logits(*build_model(config, "config"), ids);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 5e-5) << i;
}

void expect_wrong(const Json& c) {
  auto id = c.at("error").get<std::string>();
  if (id == "shape") {  // builds; its weights do not fit
    auto model = build_model(c.at("config"), "config");
    nn::Structure structure(*model, {}, model->ties());
    std::string q = "model.layers.0.self_attn.q_proj.weight";
    EXPECT_NE(model->config().head_dim, 16);
    EXPECT_EQ(Tensors(kData / "rope.safetensors").get(q).dims(), (Dims{64, 32}));
    EXPECT_EQ(structure.manifest().at("model.layers[0:2:1].self_attn.q_proj.weight").type.sizes(),
              (Dims{2, 512, 32}));
    return;
  }
  try {
    build_model(c.at("config"), "config");
    ADD_FAILURE() << "should be " << id;
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), id) << e.what();
  }
}

TEST(RopeConfig, EverySpelling) {
  Json all = read_json(kData / "rope.json");
  auto ids = all.at("ids").get<std::vector<int32_t>>();
  ASSERT_EQ(all.at("cases").size(), 19u);
  for (const Json& c : all.at("cases")) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    if (c.contains("error")) {
      expect_wrong(c);
    } else {
      expect_right(c, ids);
    }
  }
}

nn::RotaryTable table_of(const Json& config) {
  return read_rotary(ConfigReader(config, "config"), 32, 1.0);
}

// Spellings that transformers 5.24 reads alike.
void expect_same(const Json& one, const Json& other) {
  nn::RotaryTable a = table_of(one), b = table_of(other);
  EXPECT_EQ(a.inv_freq, b.inv_freq) << one << other;
  EXPECT_EQ(a.attention_factor, b.attention_factor) << one << other;
}

TEST(RopeConfig, AnEmptyScalingBlockIsNone) {
  Json theta = {{"rope_type", "default"}, {"rope_theta", 777.0}};
  expect_same({{"rope_scaling", Json::object()}, {"rope_parameters", theta}},
              {{"rope_theta", 777}});
}

TEST(RopeConfig, WhereTheOriginalContextStands) {
  for (const char* type : {"yarn", "llama3"}) {
    Json block = {
        {"rope_type", type}, {"factor", 4.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
    Json stated = block;
    stated["original_max_position_embeddings"] = 64;
    Json right = {{"max_position_embeddings", 128}, {"rope_scaling", stated}};
    expect_same(right, {{"max_position_embeddings", 64}, {"rope_scaling", block}});
    stated["original_max_position_embeddings"] = 32;
    expect_same(right, {{"max_position_embeddings", 128},
                        {"original_max_position_embeddings", 64},
                        {"rope_scaling", stated}});
    EXPECT_NE(table_of(right).inv_freq, table_of({{"rope_scaling", stated}}).inv_freq);
  }
}

// Within max_position_embeddings, where every command stays.
TEST(RopeConfig, DynamicScalingIsDefault) {
  expect_same({{"rope_theta", 5e5}, {"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}},
              {{"rope_theta", 5e5}});
}

TEST(RopeConfig, YarnAttentionFactor) {
  Json block = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  auto factor = [&](const Json& more) {
    Json all = block;
    all.update(more);
    return table_of({{"rope_scaling", all}}).attention_factor;
  };
  double log4 = std::log(4.0);
  EXPECT_DOUBLE_EQ(factor(Json::object()), 0.1 * log4 + 1);
  EXPECT_DOUBLE_EQ(factor({{"mscale", 1.3}, {"mscale_all_dim", 0.7}}),
                   (0.13 * log4 + 1) / (0.07 * log4 + 1));
  EXPECT_DOUBLE_EQ(factor({{"mscale", 1.3}}), 0.1 * log4 + 1);
  EXPECT_DOUBLE_EQ(factor({{"mscale", 1.3}, {"mscale_all_dim", 0.7}, {"attention_factor", 1.5}}),
                   1.5);
}

}  // namespace
}  // namespace strata::models
