// Directories of shards, and the total comparison of names. The layouts follow the eight defects
// that users of other loaders report: a missing shard, a tensor in another shard than the index
// says, a tensor nowhere, one outside the index, stray files, both forms at once, path tricks.
#include "strata/weights/hf_directory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "strata/base/json.h"
#include "strata/weights/files_for_test.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::weights {
namespace {

const char* const kFirst = "model-00001-of-00002.safetensors";
const char* const kSecond = "model-00002-of-00002.safetensors";

void write_filled(const std::filesystem::path& directory, const std::vector<TensorSpec>& specs,
                  ShardOptions options) {
  std::filesystem::create_directories(directory);
  ShardedWriter writer(directory, specs, std::move(options));
  float value = 0;
  for (const TensorSpec& spec : writer.order()) {
    std::vector<float> values(static_cast<size_t>(element_count(spec.dims)), ++value);
    writer.write(std::as_bytes(std::span(values)));
  }
  writer.finish();
}

// Two shards: a.weight and b.weight, then c.weight and norm.weight.
std::vector<TensorSpec> four_specs() {
  return {{"a.weight", DType::f32, {4, 4}},
          {"b.weight", DType::f32, {4, 4}},
          {"c.weight", DType::f32, {4, 4}},
          {"norm.weight", DType::f32, {16}}};
}

class ShardedDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    ShardOptions options;
    options.max_shard_bytes = 128;
    write_filled(directory_, four_specs(), options);
  }
  void edit_index(const std::function<void(Json&)>& edit) {
    auto file = directory_ / "model.safetensors.index.json";
    Json index = read_json(file);
    edit(index);
    write_file_atomically(file, index.dump());
  }
  void expect_refused(std::string_view id, std::string_view part) {
    expect_error([&] { HfDirectory d(directory_); }, id, part);
  }

  ScratchDirectory scratch_;
  std::filesystem::path directory_ = scratch_ / "model";
};

TEST_F(ShardedDirectory, Intact) {
  Json index = read_json(directory_ / "model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], 256);
  EXPECT_EQ(index["weight_map"].dump(),
            fmt::format("{{\"a.weight\":\"{0}\",\"b.weight\":\"{0}\",\"c.weight\":\"{1}\","
                        "\"norm.weight\":\"{1}\"}}",
                        kFirst, kSecond));
  HfDirectory d(directory_);
  ASSERT_EQ(d.tensors().size(), 4u);
  ASSERT_EQ(d.files().size(), 2u);
  EXPECT_EQ(d.metadata().at("format"), "pt");
  EXPECT_EQ(d.total_bytes(), 256u);
  const char* names[] = {"a.weight", "b.weight", "c.weight", "norm.weight"};
  for (size_t i = 0; i < 4; ++i) {
    const TensorView& t = d.get(names[i]);
    EXPECT_EQ(to_host(t).at(0), static_cast<double>(i + 1));
    EXPECT_EQ(d.files()[t.file].filename(), i < 2 ? kFirst : kSecond);
    d.release(t);
    EXPECT_EQ(to_host(t).at(15), static_cast<double>(i + 1));
  }
}

TEST_F(ShardedDirectory, MissingShard) {
  std::filesystem::remove(directory_ / kSecond);
  expect_refused("weights.shard_missing", kSecond);
  expect_refused("weights.shard_missing", "2 tensors, among them c.weight");
}

TEST_F(ShardedDirectory, TensorNotInTheShardThatTheIndexNames) {
  edit_index([](Json& j) { j["weight_map"]["norm.weight"] = kFirst; });
  expect_refused("weights.index_absent", "norm.weight");
}

TEST_F(ShardedDirectory, TensorInNoShard) {
  edit_index([](Json& j) { j["weight_map"]["d.weight"] = kSecond; });
  expect_refused("weights.index_absent", "1 absent: d.weight");
}

TEST_F(ShardedDirectory, TensorOutsideTheIndex) {
  edit_index([](Json& j) { j["weight_map"].erase("norm.weight"); });
  expect_refused("weights.index_unlisted", "1 others: norm.weight");
}

TEST_F(ShardedDirectory, StrayFilesAreIgnored) {
  put_file(directory_ / "consolidated.safetensors", "not even safetensors");
  ::testing::internal::CaptureStderr();
  HfDirectory d(directory_);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("ignoring consolidated.safetensors"),
            std::string::npos);
  EXPECT_EQ(to_host(d.get("a.weight")).at(0), 1);
}

TEST_F(ShardedDirectory, BothForms) {
  put_file(directory_ / "model.safetensors", read_file(directory_ / kFirst));
  expect_refused("weights.both_forms", "Remove the stale one");
}

TEST_F(ShardedDirectory, PathTricks) {
  for (const char* name :
       {"../other/model-00001-of-00002.safetensors", "/etc/x.safetensors", "sub/x.safetensors",
        "..\\x.safetensors", "..", "", ".safetensors", "config.json"}) {
    SCOPED_TRACE(name);
    edit_index([&](Json& j) { j["weight_map"]["norm.weight"] = name; });
    expect_refused("weights.index_path", "tensor 'norm.weight'");
  }
}

TEST_F(ShardedDirectory, DamagedIndex) {
  auto file = directory_ / "model.safetensors.index.json";
  auto refused = [&](std::string_view text, std::string_view id, std::string_view part) {
    SCOPED_TRACE(text);
    write_file_atomically(file, text);
    expect_refused(id, part);
  };
  refused("{\"weight_map\":", "json.parse", "index.json");
  refused(std::string("{}\0{}", 5), "json.nul", "byte 2");
  refused("[]", "weights.index_shape", "weight_map");
  refused("{\"weight_map\":[]}", "weights.index_shape", "weight_map");
  refused("{\"weight_map\":{}}", "weights.index_empty", "an empty one");
  refused("{\"weight_map\":{\"a\":1}}", "weights.index_entry", "tensor 'a'");
  refused(fmt::format("{{\"weight_map\":{{\"a\":\"{}\",\"a\":\"{}\"}}}}", kFirst, kSecond),
          "json.duplicate_key", "'a' twice");
}

TEST(HfDirectory, SingleFileAndTailOfEmptyTensors) {
  ScratchDirectory scratch;
  std::vector<TensorSpec> specs = {{"big", DType::f32, {64}}, {"none", DType::f32, {0}}};
  write_filled(scratch / "one", specs, {});
  EXPECT_FALSE(std::filesystem::exists(scratch / "one/model.safetensors.index.json"));
  EXPECT_EQ(HfDirectory(scratch / "one").tensors().size(), 2u);
  ShardOptions tiny;
  tiny.max_shard_bytes = 1;  // each tensor is larger than a shard may be
  write_filled(scratch / "many", specs, tiny);
  HfDirectory many(scratch / "many");
  EXPECT_EQ(many.files().size(), 2u);
  EXPECT_EQ(to_host(many.get("big")).at(63), 1);
}

TEST(HfDirectory, OtherSafetensorsBesideASingleFileAreIgnored) {
  ScratchDirectory scratch;
  write_filled(scratch / "m", four_specs(), {});
  put_file(scratch / "m/adapter_model.safetensors", "");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(open_source(scratch / "m")->tensors().size(), 4u);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("adapter_model"), std::string::npos);
}

TEST(HfDirectory, NoWeights) {
  ScratchDirectory scratch;
  auto open = [&] { HfDirectory d(scratch / "m"); };
  expect_error(open, "weights.directory", "a model directory");
  std::filesystem::create_directories(scratch / "m");
  expect_error(open, "weights.none", "an empty directory");
  put_file(scratch / "m/pytorch_model.bin", "x");
  expect_error(open, "weights.none", "Pickled weights are not read");
  put_file(scratch / "m/z.gguf", "x");
  expect_error(open, "weights.none", "strata import-gguf");
}

TEST(HfDirectory, AFailedWriteLeavesNoFile) {
  ScratchDirectory scratch;
  expect_error(
      [&] {
        ShardedWriter writer(scratch.path(), four_specs());
        writer.write(bytes_of(std::string(100, 'x')));
        writer.finish();
      },
      "weights.write_short", "156 bytes fewer");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(CheckTotal, ListsEveryMismatchAtOnce) {
  ScratchDirectory scratch;
  write_filled(scratch / "m", four_specs(), {});
  auto source = open_source(scratch / "m");
  std::vector<Wanted> good = {{"a.weight", {4, 4}},
                              {"b.weight", {4, 4}, DType::f32},
                              {"c.weight", {4, 4}},
                              {"norm.weight", {16}}};
  check_total(*source, good);
  std::vector<Wanted> bad = {{"a.weight", {2, 8}},
                             {"b.weight", {4, 4}, DType::bf16},
                             {"lm_head.weight", {4, 4}},
                             {"norm.weight", {16}}};
  Error e = error_of([&] { check_total(*source, bad); });
  EXPECT_EQ(e.id(), "weights.mismatch");
  EXPECT_NE(e.message().find("1 missing (lm_head.weight); 1 unexpected (c.weight); "
                             "1 of another shape (a.weight: expected [2, 8], got [4, 4]); "
                             "1 of another element type (b.weight: expected bf16, got f32)"),
            std::string::npos)
      << e.what();
}

TEST(CheckTotal, IgnorablePatternsAndLongLists) {
  ScratchDirectory scratch;
  write_filled(scratch / "m", four_specs(), {});
  auto source = open_source(scratch / "m");
  std::vector<Wanted> one = {{"norm.weight", {16}}};
  std::vector<std::string> ignorable = {"a.*", "*.weight"};
  check_total(*source, one, ignorable);
  expect_error([&] { check_total(*source, one, std::span(ignorable).first(1)); },
               "weights.mismatch", "2 unexpected (b.weight, c.weight)");
  std::vector<Wanted> many;
  for (int i = 0; i < 30; ++i) many.push_back({fmt::format("w{:02}", i), {}});
  expect_error([&] { check_total(*source, many, ignorable); }, "weights.mismatch",
               "30 missing (w00, ");
  expect_error([&] { check_total(*source, many, ignorable); }, "weights.mismatch", "w19, …)");
}

TEST(TensorSource, GetNamesTheNearest) {
  ScratchDirectory scratch;
  write_filled(scratch / "m", four_specs(), {});
  auto source = open_source(scratch / "m/model.safetensors");
  Error e = error_of([&] { source->get("norm.wieght"); });
  EXPECT_EQ(e.code(), Code::not_found);
  EXPECT_EQ(e.id(), "weights.no_tensor");
  EXPECT_NE(e.message().find("'norm.weight'"), std::string::npos);
}

TEST(Matches, Stars) {
  EXPECT_TRUE(matches("model.layers.3.rotary.inv_freq", "*.rotary.inv_freq"));
  EXPECT_TRUE(matches("a.b.c.b", "a*b"));
  EXPECT_TRUE(matches("abc", "***"));
  EXPECT_TRUE(matches("", "*"));
  EXPECT_TRUE(matches("abab", "*ab*ab"));
  EXPECT_FALSE(matches("a.b.c", "a*b"));
  EXPECT_FALSE(matches("abc", ""));
  EXPECT_FALSE(matches("ab", "ab*c"));
  EXPECT_FALSE(matches("aab", "*ab*ab"));
}

}  // namespace
}  // namespace strata::weights
