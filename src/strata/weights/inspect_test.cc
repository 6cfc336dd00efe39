#include "strata/weights/inspect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "strata/weights/files_for_test.h"
#include "strata/weights/gguf_for_test.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::weights {
namespace {

TEST(Inspect, Safetensors) {
  ScratchDirectory scratch;
  HostTensor w(DType::bf16, {300, 4}), s(DType::f32, {});
  std::vector<NamedTensor> tensors = {{"layer.weight", &w}, {"s", &s}};
  write_safetensors(scratch / "x.st", tensors, {{"format", "pt"}});
  Inspection in = inspect_path(scratch / "x.st");
  EXPECT_EQ(to_text(in), (scratch / "x.st").string() +
                             ": safetensors\n"
                             "  format = \"pt\"\n"
                             "name          dtype  shape          size\n"
                             "s             f32    scalar          4 B\n"
                             "layer.weight  bf16   300 x 4    2.34 KiB\n"
                             "2 tensors, 1201 parameters, 2.35 KiB\n");
  Json json = to_json(in);
  json.erase("path");
  EXPECT_EQ(json.dump(),
            "{\"kind\":\"safetensors\",\"metadata\":{\"format\":\"pt\"},\"tensors\":["
            "{\"name\":\"s\",\"dtype\":\"f32\",\"shape\":[],\"bytes\":4},"
            "{\"name\":\"layer.weight\",\"dtype\":\"bf16\",\"shape\":[300,4],\"bytes\":2400}],"
            "\"parameters\":1201,\"bytes\":2404}");
}

TEST(Inspect, DirectoryOfShards) {
  ScratchDirectory scratch;
  ShardOptions options;
  options.max_shard_bytes = 8;
  ShardedWriter writer(scratch.path(), {{"a", DType::u8, {8}}, {"b", DType::u8, {8}}}, options);
  writer.write(bytes_of("12345678"));
  writer.write(bytes_of("12345678"));
  writer.finish();
  put_file(scratch / "config.json", "{\"model_type\":\"llama\",\"rope\":{\"theta\":5}}");
  Inspection in = inspect_path(scratch.path());
  EXPECT_EQ(in.kind, "hf_directory");
  std::string text = to_text(in);
  EXPECT_NE(text.find("  config.rope.theta = 5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  weights.format = \"pt\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("8 B  model-00002-of-00002.safetensors\n"), std::string::npos) << text;
  EXPECT_EQ(to_json(in)["tensors"][1]["file"], "model-00002-of-00002.safetensors");
}

TEST(Inspect, GgufWithLongAndOddMetadata) {
  using G = GgufImage;
  ScratchDirectory scratch;
  GgufImage g;
  std::string umlauts;
  for (int i = 0; i < 60; ++i) umlauts += "\u00e4";
  g.string("text", umlauts).string("odd", "\xff\xfe").boolean("yes", true).f32("nan", NAN);
  g.key("huge", 10, G::raw(~uint64_t{0})).i32s("few", {1, -2});
  g.strings("many", std::vector<std::string>(17, "t"));
  g.key("reals", 9, G::raw(uint32_t{6}) + G::raw(uint64_t{1}) + G::raw(0.5f));
  g.info("q", {256, 2}, 13, 0).data(std::string(352, '\0'));
  put_file(scratch / "m.bin", g.bytes());
  Inspection in = inspect_path(scratch / "m.bin");
  EXPECT_EQ(in.kind, "gguf");
  EXPECT_EQ(in.metadata["odd"], "(2 bytes that are not UTF-8)");
  EXPECT_EQ(in.metadata["yes"], true);
  EXPECT_EQ(in.metadata["huge"], ~uint64_t{0});
  EXPECT_EQ(in.metadata["few"].dump(), "[1,-2]");
  EXPECT_EQ(in.metadata["reals"].dump(), "[0.5]");
  EXPECT_EQ(in.metadata["many"], "17 of string");
  ASSERT_EQ(in.rows.size(), 1u);
  EXPECT_EQ(in.rows[0].dtype, "Q5_K") << "a type that is not decoded can still be listed";
  EXPECT_EQ(in.rows[0].dims, (Dims{2, 256}));
  std::string text = to_text(in);
  EXPECT_NE(text.find("\u00e4\u00e4…\n"), std::string::npos);
  EXPECT_TRUE(Json::accept(to_json(in).dump()));
}

TEST(Inspect, UnknownFiles) {
  ScratchDirectory scratch;
  put_file(scratch / "x.txt", "some text here");
  put_file(scratch / "y.safetensors", "some text here");
  expect_error([&] { inspect_path(scratch / "x.txt"); }, "weights.inspect_kind", "14 B");
  expect_error([&] { inspect_path(scratch / "y.safetensors"); }, "weights.st_header_length",
               "y.safetensors");
  EXPECT_EQ(error_of([&] { inspect_path(scratch / "absent"); }).code(), Code::not_found);
}

}  // namespace
}  // namespace strata::weights
