// Case C4: a model in two shards, intact and with one defect each. What loads gives the right
// logits; what does not names the file or tensor, and writes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(STRATA_SOURCE_DIR) / "tests/testdata/cases";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(kCases / "two_shards", model_);
    auto ids = want_.at("ids").get<std::vector<int32_t>>();
    HostTensor row = HostTensor::of<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
    weights::NamedTensor named{"input_ids", &row};
    weights::write_safetensors(scratch_ / "x.safetensors", std::span(&named, 1));
  }

  Outcome score() const {
    return run({{"score", "--model", model_.string(), "--input",
                 (scratch_ / "x.safetensors").string(), "--out", out_.string()}});
  }
  void expect_right(const Outcome& o) const {
    ASSERT_EQ(o.status, 0) << o.err;
    HostTensor logits = weights::to_host(weights::open_source(out_)->get("logits"));
    auto last = want_.at("last_logits").get<std::vector<double>>();
    auto width = static_cast<int64_t>(last.size());
    ASSERT_EQ(logits.size() % width, 0);
    for (int64_t i = 0; i < width; ++i) {
      EXPECT_NEAR(logits.at(logits.size() - width + i), last[static_cast<size_t>(i)], 2e-5) << i;
    }
  }
  void expect_refused(const std::string& id, int status, const std::vector<std::string>& parts) {
    expect_error(score(), status, id, parts);
    EXPECT_FALSE(fs::exists(out_));
  }
  void edit_index(const std::function<void(Json&)>& edit) {
    Json index = read_json(index_);
    edit(index["weight_map"]);
    write_file_atomically(index_, index.dump());
  }
  // All tensors of the model, or those that `keep` names, times `factor`.
  void write_tensors(const fs::path& path, float factor,
                     const std::function<bool(const weights::TensorView&)>& keep) const {
    auto source = weights::open_source(kCases / "two_shards");
    std::vector<HostTensor> tensors;
    std::vector<std::string> names;
    for (const weights::TensorView& view : source->tensors()) {
      if (!keep(view)) continue;
      tensors.push_back(weights::to_host(view));
      names.push_back(std::string(view.name));
      for (float& v : tensors.back().data<float>()) v *= factor;
    }
    std::vector<weights::NamedTensor> named;
    for (size_t i = 0; i < names.size(); ++i) named.push_back({names[i], &tensors[i]});
    weights::write_safetensors(path, named);
  }
  void write_zeros(const std::string& name) const {
    write_tensors(model_ / name, 0, [](const weights::TensorView&) { return true; });
  }

  Scratch scratch_;
  Json want_ = read_json(kCases / "two_shards.json");
  fs::path model_ = scratch_ / "model", out_ = scratch_ / "y.safetensors";
  fs::path index_ = model_ / "model.safetensors.index.json";
};

TEST_F(Shards, Intact) { expect_right(score()); }

TEST_F(Shards, AMissingShard) {
  fs::remove(model_ / kSecond);
  expect_refused("weights.shard_missing", 4, {kSecond});
}

TEST_F(Shards, ATensorInAnotherShardThanTheIndexSays) {
  edit_index([](Json& map) {
    Json& shard = map["model.norm.weight"];
    shard = shard == kFirst ? kSecond : kFirst;
  });
  expect_refused("weights.index_absent", 5, {"model.norm.weight"});
}

TEST_F(Shards, ATensorThatNoShardHolds) {
  const std::string gone = "model.layers.1.mlp.down_proj.weight";
  std::string shard = read_json(index_).at("weight_map").at(gone);
  Json map = read_json(index_).at("weight_map");
  write_tensors(model_ / shard, 1, [&](const weights::TensorView& t) {
    return map.at(std::string(t.name)) == shard && t.name != gone;
  });
  expect_refused("weights.index_absent", 5, {gone, shard});
}

TEST_F(Shards, ATensorThatTheIndexForgets) {
  edit_index([](Json& map) { map.erase("model.layers.0.self_attn.q_norm.weight"); });
  expect_refused("weights.index_unlisted", 5, {"model.layers.0.self_attn.q_norm.weight"});
}

// Zeros beside the shards are not read.
TEST_F(Shards, AStrayFileIsIgnoredWithAWarning) {
  write_zeros("consolidated.safetensors");
  Outcome o = score();
  expect_right(o);
  EXPECT_NE(o.err.find("ignoring consolidated.safetensors"), std::string::npos) << o.err;
}

TEST_F(Shards, ASingleFileBesideAnIndexIsTheUsersChoice) {
  write_zeros("model.safetensors");
  expect_refused("weights.both_forms", 3, {"model.safetensors", "index"});
}

TEST_F(Shards, AShardNameIsNoPath) {
  edit_index([](Json& map) { map["model.norm.weight"] = std::string("../model/") + kFirst; });
  expect_refused("weights.index_path", 3, {"../model/"});
}

// Case D4: without head_dim a qwen3 has 128, whatever its other sizes say; the stored weights
// have 16.
TEST_F(Shards, AHeadDimThatTheWeightsContradict) {
  Json config = read_json(model_ / "config.json");
  config.erase("head_dim");
  write_file_atomically(model_ / "config.json", config.dump());
  expect_refused("weights.mismatch", 3,
                 {"model.layers.0.self_attn.q_proj.weight: expected [512, 32], got [64, 32]",
                  "model.layers.1.self_attn.o_proj.weight: expected [32, 512], got [32, 64]"});
}

}  // namespace
}  // namespace strata::end_to_end
