// GGUF values, and decoding against PyPI gguf on random blocks (tools/make_gguf_golden.py).
#include "strata/weights/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "strata/weights/files_for_test.h"
#include "strata/weights/gguf_for_test.h"

namespace strata::weights {
namespace {

const std::filesystem::path kData =
    std::filesystem::path(STRATA_SOURCE_DIR) / "tests/testdata/weights";

class GgufBlocks : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufBlocks, EqualPyPiBitForBit) {
  GgufFile file(kData / "gguf_blocks.gguf");
  std::string name = GetParam();
  const GgufTensor* blocks = file.find_tensor(name);
  const GgufTensor* expected = file.find_tensor(name + ".expected");
  ASSERT_NE(blocks, nullptr);
  ASSERT_NE(expected, nullptr);
  EXPECT_EQ(blocks->type->name, name);
  EXPECT_EQ(blocks->dims, (Dims{4, 256}));
  EXPECT_EQ(blocks->row_bytes() * 4, blocks->bytes.size());
  std::vector<float> got(1024);
  dequantise(*blocks->type, blocks->bytes, got, "x");
  ASSERT_EQ(expected->bytes.size(), 4096u);
  for (size_t i = 0; i < got.size(); ++i) {
    uint32_t a = 0, b = 0;
    std::memcpy(&a, &got[i], 4);
    std::memcpy(&b, expected->bytes.data() + 4 * i, 4);
    ASSERT_EQ(a, b) << "element " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Types, GgufBlocks,
                         ::testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K",
                                           "Q6_K"));

TEST(Gguf, EveryValueType) {
  using G = GgufImage;
  GgufImage g;
  g.key("u8", 0, G::raw(uint8_t{200})).key("i8", 1, G::raw(int8_t{-7}));
  g.key("u16", 2, G::raw(uint16_t{60000})).key("i16", 3, G::raw(int16_t{-300}));
  g.u32("u32", 4000000000u).key("i32", 5, G::raw(int32_t{-70000}));
  g.f32("f32", 0.5f).boolean("yes", true).string("text", "caf\u00e9");
  g.key("u64", 10, G::raw(uint64_t{1} << 62)).key("i64", 11, G::raw(int64_t{-1} << 62));
  g.key("f64", 12, G::raw(0.1)).key("huge", 10, G::raw(~uint64_t{0}));
  g.strings("words", {"a", "", "bc"}).i32s("numbers", {3, -4});
  g.key("reals", 9, G::raw(uint32_t{6}) + G::raw(uint64_t{2}) + G::raw(1.5f) + G::raw(-2.f));
  g.key(
      "nested", 9,
      G::raw(uint32_t{9}) + G::raw(uint64_t{1}) + G::raw(uint32_t{0}) + G::raw(uint64_t{2}) + "xy");
  ScratchDirectory scratch;
  put_file(scratch / "v.gguf", g.bytes());
  GgufFile file(scratch / "v.gguf");
  EXPECT_EQ(file.index().version, 3u);
  EXPECT_EQ(file.get_int("u8"), 200);
  EXPECT_EQ(file.get_int("i8"), -7);
  EXPECT_EQ(file.get_int("u16"), 60000);
  EXPECT_EQ(file.get_int("i16"), -300);
  EXPECT_EQ(file.get_int("u32"), 4000000000);
  EXPECT_EQ(file.get_int("i32"), -70000);
  EXPECT_EQ(file.get_int("u64"), int64_t{1} << 62);
  EXPECT_EQ(file.get_int("i64"), int64_t{-1} << 62);
  EXPECT_EQ(file.get_double("f32"), 0.5);
  EXPECT_EQ(file.get_double("f64"), 0.1);
  EXPECT_EQ(file.get_double("i8"), -7);
  EXPECT_TRUE(file.get_bool_or("yes", false));
  EXPECT_TRUE(file.get_bool_or("absent", true));
  EXPECT_EQ(file.get_string("text"), "caf\u00e9");
  EXPECT_EQ(file.get_strings("words"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(file.get_ints("numbers"), (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(file.find("reals")->doubles(), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(file.find("nested")->count, 1u);
  EXPECT_EQ(file.get_int_or("absent", 5), 5);
  EXPECT_EQ(file.get_double_or("absent", 5), 5);
  EXPECT_EQ(file.get_string_or("absent", "d"), "d");

  auto type = [](const std::function<void()>& f, const char* part) {
    expect_error(f, "weights.gguf_key_type", part);
  };
  type([&] { file.get_int("text"); }, "key 'text': expected an integer, got string");
  type([&] { file.get_int("yes"); }, "got bool");
  type([&] { file.get_int("huge"); }, "got u64");
  type([&] { file.get_double("words"); }, "got an array of string");
  type([&] { file.get_string("u8"); }, "expected a string, got u8");
  type([&] { file.get_bool_or("u8", true); }, "expected a boolean");
  type([&] { file.get_strings("numbers"); }, "expected an array of strings");
  type([&] { file.get_ints("words"); }, "expected an array of integers");
  expect_error([&] { file.get_int("absent"); }, "weights.gguf_key", "'absent'");
}

TEST(Gguf, TensorsAlignmentAndVersionTwo) {
  GgufImage g;
  g.u32("general.alignment", 64);
  g.info("a", {3, 2}, 0, 0).info("b", {32}, 8, 64).info("s", {}, 0, 128).info("e", {0, 5}, 0, 128);
  std::string image = g.bytes(2);
  image.resize((image.size() + 63) / 64 * 64);
  image += std::string(128, '\0') + std::string(4, '\0');
  GgufIndex index = parse_gguf(bytes_of(image), "x.gguf");
  EXPECT_EQ(index.version, 2u);
  EXPECT_EQ(index.alignment, 64u);
  ASSERT_EQ(index.tensors.size(), 4u);
  EXPECT_EQ(index.tensors[0].dims, (Dims{2, 3}));
  EXPECT_EQ(index.tensors[0].bytes.size(), 24u);
  EXPECT_EQ(index.tensors[1].type->name, "Q8_0");
  EXPECT_EQ(index.tensors[1].bytes.size(), 34u);
  EXPECT_EQ(index.tensors[1].offset % 64, 0u);
  EXPECT_EQ(index.tensors[2].bytes.size(), 4u);
  EXPECT_EQ(index.tensors[3].dims, (Dims{5, 0}));
  EXPECT_TRUE(index.tensors[3].bytes.empty());
}

}  // namespace
}  // namespace strata::weights
