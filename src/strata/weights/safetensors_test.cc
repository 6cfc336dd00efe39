// Lawful but unusual files, exact element types, and what the writers write.
#include "strata/weights/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "strata/base/json.h"
#include "strata/weights/files_for_test.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::weights {
namespace {

template <class T>
std::string raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

const std::string kFour = raw<float>({1, 2, 3, 4});

// Name, dtype, dims and values as doubles.
struct Expected {
  std::string name;
  DType dtype;
  Dims dims;
  std::vector<double> values;
};

void expect_tensors(const std::string& header, const std::string& data,
                    const std::vector<Expected>& expected) {
  // Every shift of the image in memory must read alike: the format aligns nothing.
  for (size_t shift : {0, 1, 3}) {
    std::string padded = std::string(shift, '?') + safetensors_image(header, data);
    auto index = parse_safetensors(bytes_of(padded).subspan(shift), "x.safetensors");
    ASSERT_EQ(index.tensors.size(), expected.size());
    for (const Expected& e : expected) {
      SCOPED_TRACE(e.name);
      auto it = std::find_if(index.tensors.begin(), index.tensors.end(),
                             [&](const TensorView& t) { return t.name == e.name; });
      ASSERT_NE(it, index.tensors.end());
      EXPECT_EQ(it->dtype, e.dtype);
      EXPECT_EQ(it->dims, e.dims);
      HostTensor host = to_host(*it);
      ASSERT_EQ(host.size(), std::ssize(e.values));
      for (int64_t i = 0; i < host.size(); ++i) {
        double want = e.values[static_cast<size_t>(i)];
        EXPECT_EQ(host.at(i), want) << i;
        EXPECT_EQ(std::signbit(host.at(i)), std::signbit(want)) << i;
      }
    }
  }
}

std::string f32(std::string_view name, std::string_view shape, std::string_view offsets) {
  return entry(name, "F32", shape, offsets);
}

TEST(Safetensors, NoTensors) {
  expect_tensors("{}", "", {});
  expect_tensors("{\"__metadata__\":{\"format\":\"pt\"}}", "", {});
  expect_tensors("{\"__metadata__\":null}", "", {});
}

TEST(Safetensors, ScalarAndEmptyTensors) {
  expect_tensors("{" + f32("t", "[]", "[0,4]") + "}", raw<float>({2.5}),
                 {{"t", DType::f32, {}, {2.5}}});
  expect_tensors("{" + f32("e", "[0]", "[0,0]") + "," + f32("t", "[4]", "[0,16]") + "}", kFour,
                 {{"e", DType::f32, {0}, {}}, {"t", DType::f32, {4}, {1, 2, 3, 4}}});
  expect_tensors(
      "{" + f32("a", "[2,0]", "[0,0]") + "," + entry("b", "BF16", "[0,3]", "[0,0]") + "}", "",
      {{"a", DType::f32, {2, 0}, {}}, {"b", DType::bf16, {0, 3}, {}}});
  expect_tensors("{" + f32("a", "[2]", "[0,8]") + "," + entry("s", "F8_E4M3", "[0]", "[8,8]") +
                     "," + f32("b", "[2]", "[8,16]") + "}",
                 kFour,
                 {{"a", DType::f32, {2}, {1, 2}},
                  {"s", DType::f8e4m3fn, {0}, {}},
                  {"b", DType::f32, {2}, {3, 4}}});
}

TEST(Safetensors, DataAtOddAddresses) {
  for (const char* pad : {"", " ", "  "}) {
    expect_tensors("{" + f32("t", "[4]", "[0,16]") + "}" + pad, kFour,
                   {{"t", DType::f32, {4}, {1, 2, 3, 4}}});
    expect_tensors("{" + entry("t", "BF16", "[3]", "[0,6]") + "}" + pad,
                   raw<uint16_t>({0x3F80, 0xC000, 0x3E80}),
                   {{"t", DType::bf16, {3}, {1.0, -2.0, 0.25}}});
  }
  expect_tensors("{" + entry("m", "U8", "[3]", "[0,3]") + "," + f32("t", "[4]", "[3,19]") + "}",
                 "\x07\x08\x09" + kFour,
                 {{"m", DType::u8, {3}, {7, 8, 9}}, {"t", DType::f32, {4}, {1, 2, 3, 4}}});
}

TEST(Safetensors, HeaderOrderNamesAndSpaces) {
  expect_tensors("{" + f32("z", "[2]", "[8,16]") + "," + f32("a", "[2]", "[0,8]") + "}", kFour,
                 {{"z", DType::f32, {2}, {3, 4}}, {"a", DType::f32, {2}, {1, 2}}});
  expect_tensors("{" + f32("caf\\u00e9/\\\"q\\\"\\\\w", "[4]", "[0,16]") + "}", kFour,
                 {{"caf\u00e9/\"q\"\\w", DType::f32, {4}, {1, 2, 3, 4}}});
  expect_tensors("{" + f32("w\\ud83d\\ude00", "[4]", "[0,16]") + "}", kFour,
                 {{"w\U0001F600", DType::f32, {4}, {1, 2, 3, 4}}});
  expect_tensors("\n {" + f32("t", "[4]", "[0,16]") + "}" + std::string(4096, ' '), kFour,
                 {{"t", DType::f32, {4}, {1, 2, 3, 4}}});
}

TEST(Safetensors, UnknownFieldsOfAnEntryAreSkipped) {
  std::string fields =
      "\"x\":1,\"y\":{\"dtype\":[{}]},\"z\":[\"a\",[2.5]],\"n\":null,\"f\":1.5,\"b\":true,"
      "\"m\":-1,\"s\":\"t\",";
  expect_tensors("{\"t\":{" + fields + "\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
                 kFour, {{"t", DType::f32, {4}, {1, 2, 3, 4}}});
}

TEST(Safetensors, IntegersBoolAndHalfSpecials) {
  std::string data = raw<int64_t>({(int64_t{1} << 53) + 1}) + raw<int32_t>({16777217}) +
                     raw<int16_t>({-3}) + raw<int8_t>({-128}) + std::string("\x01\x00", 2);
  std::string image = safetensors_image(
      "{" + entry("i64", "I64", "[1]", "[0,8]") + "," + entry("i32", "I32", "[1]", "[8,12]") + "," +
          entry("i16", "I16", "[1]", "[12,14]") + "," + entry("i8", "I8", "[1]", "[14,15]") + "," +
          entry("b", "BOOL", "[2]", "[15,17]") + "}",
      data);
  auto tensors = parse_safetensors(bytes_of(image), "x").tensors;
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(to_host(tensors[0]).data<int64_t>()[0], (int64_t{1} << 53) + 1);
  EXPECT_EQ(to_host(tensors[1]).data<int32_t>()[0], 16777217);
  EXPECT_EQ(to_host(tensors[2]).data<int16_t>()[0], -3);
  EXPECT_EQ(to_host(tensors[3]).data<int8_t>()[0], -128);
  EXPECT_EQ(to_host(tensors[4]).at(0), 1);
  EXPECT_EQ(to_host(tensors[4]).at(1), 0);
  expect_tensors("{" + entry("t", "F16", "[5]", "[0,10]") + "}",
                 raw<uint16_t>({0x0001, 0x7BFF, 0x8000, 0x7C00, 0x3555}),
                 {{"t",
                   DType::f16,
                   {5},
                   {5.960464477539063e-08, 65504.0, -0.0, std::numeric_limits<double>::infinity(),
                    0.333251953125}}});
}

// Values by the definition of the format: sign, exponent, mantissa.
double small_float(int bits, int exponent_bits, int mantissa_bits, int bias) {
  int mantissa = bits & ((1 << mantissa_bits) - 1);
  int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  double fraction = mantissa / static_cast<double>(1 << mantissa_bits);
  double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Safetensors, EveryByteOfTheEightBitFloats) {
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  std::string image = safetensors_image("{" + entry("a", "F8_E4M3", "[256]", "[0,256]") + "," +
                                            entry("b", "F8_E5M2", "[256]", "[256,512]") + "," +
                                            entry("c", "F8_E8M0", "[256]", "[512,768]") + "}",
                                        all + all + all);
  auto tensors = parse_safetensors(bytes_of(image), "x").tensors;
  HostTensor a = to_host(tensors[0]), b = to_host(tensors[1]), c = to_host(tensors[2]);
  for (int i = 0; i < 256; ++i) {
    if ((i & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(a.at(i))) << i;
    } else {
      EXPECT_EQ(a.at(i), small_float(i, 4, 3, 7)) << i;
    }
    if ((i & 0x7c) == 0x7c) {
      EXPECT_TRUE((i & 3) == 0 ? std::isinf(b.at(i)) : std::isnan(b.at(i))) << i;
    } else {
      EXPECT_EQ(b.at(i), small_float(i, 5, 2, 15)) << i;
    }
    if (i == 0xff) {
      EXPECT_TRUE(std::isnan(c.at(i)));
    } else {
      EXPECT_EQ(c.at(i), std::ldexp(1.0, i - 127)) << i;
    }
  }
  EXPECT_EQ(a.at(0x7e), 448);
}

TEST(Safetensors, BlockScaledWeight) {
  std::string weight = raw<uint8_t>({0x38, 0x40, 0xB8, 0x30, 0x7E, 0xFE, 0x01, 0x00, 0x38, 0x38,
                                     0x38, 0x38, 0x3C, 0x34, 0x2C, 0x24});
  std::string image = safetensors_image("{" + entry("w", "F8_E4M3", "[4,4]", "[0,16]") + "," +
                                            f32("w_scale_inv", "[2,2]", "[16,32]") + "}",
                                        weight + raw<float>({0.5, 2.0, 0.125, 4.0}));
  auto tensors = parse_safetensors(bytes_of(image), "x").tensors;
  HostTensor w = convert(to_host(tensors[0]), DType::f32), scale = to_host(tensors[1]);
  const double expected[4][4] = {{0.5, 1, -2, 1},
                                 {224, -224, 0.00390625, 0},
                                 {0.125, 0.125, 4, 4},
                                 {0.1875, 0.09375, 1.5, 0.75}};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_EQ(w.at(4 * i + j) * scale.at(2 * (i / 2) + j / 2), expected[i][j]) << i << "," << j;
    }
  }
}

HostTensor counted(DType dtype, Dims dims) {
  HostTensor t(dtype, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.set(i, static_cast<double>(i % 100));
  return t;
}

TEST(SafetensorsWriter, RoundTripWithAlignedData) {
  ScratchDirectory scratch;
  HostTensor a = counted(DType::f32, {3}), b = counted(DType::bf16, {4, 16}),
             c = counted(DType::u8, {5}), d = counted(DType::i64, {2, 8}),
             e = counted(DType::f32, {0, 2}), f = counted(DType::f16, {}),
             g = counted(DType::pred, {64});
  std::vector<NamedTensor> all = {{"a", &a},     {"b", &b}, {"c", &c}, {"d", &d},
                                  {"e\"\n", &e}, {"f", &f}, {"g", &g}};
  write_safetensors(scratch / "x.safetensors", all, {{"format", "pt"}, {"k", "v\u00e9"}});
  SafetensorsFile file(scratch / "x.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"k", "v\u00e9"}}));
  ASSERT_EQ(file.tensors().size(), all.size());
  for (const NamedTensor& t : all) {
    const TensorView& view = file.get(t.name);
    EXPECT_EQ(view.dtype, t.tensor->dtype());
    EXPECT_EQ(view.dims, t.tensor->dims());
    ASSERT_EQ(view.bytes.size(), t.tensor->byte_size());
    EXPECT_EQ(std::memcmp(view.bytes.data(), t.tensor->bytes(), view.bytes.size()), 0) << t.name;
    EXPECT_EQ(view.offset % size_of(view.dtype), 0u) << t.name;
    if (view.bytes.size() % 64 == 0) {
      EXPECT_EQ(view.offset % 64, 0u) << t.name;
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST(SafetensorsWriter, HeaderAsTheFormatSays) {
  ScratchDirectory scratch;
  SafetensorsWriter writer(scratch / "x.safetensors",
                           {{"w", DType::bf16, {2, 3}}, {"s", DType::f8e8m0fnu, {}}}, {{"k", "v"}});
  writer.write(bytes_of("12345"));
  EXPECT_EQ(writer.remaining(), 8u);
  writer.write(bytes_of("6789abcd"));
  writer.finish();
  std::string image = read_file(scratch / "x.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, image.data(), 8);
  EXPECT_EQ((8 + length) % 64, 0u);
  EXPECT_EQ(parse_json(image.substr(8, length), "x").dump(),
            "{\"__metadata__\":{\"k\":\"v\"},"
            "\"w\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
            "\"s\":{\"dtype\":\"F8_E8M0\",\"shape\":[],\"data_offsets\":[12,13]}}");
  EXPECT_EQ(image.substr(8 + length), "123456789abcd");
}

TEST(SafetensorsWriter, WritingOverAFileKeepsTheOldOneUntilTheEnd) {
  ScratchDirectory scratch;
  HostTensor old = counted(DType::f32, {4}), fresh = counted(DType::f32, {8});
  write_safetensors(scratch / "x.safetensors", std::vector<NamedTensor>{{"t", &old}});
  std::vector<NamedTensor> twice = {{"t", &fresh}, {"t", &fresh}};
  EXPECT_THROW(write_safetensors(scratch / "x.safetensors", twice), Error);
  EXPECT_EQ(SafetensorsFile(scratch / "x.safetensors").get("t").dims, Dims{4});
  write_safetensors(scratch / "x.safetensors", std::vector<NamedTensor>{{"t", &fresh}});
  EXPECT_EQ(SafetensorsFile(scratch / "x.safetensors").get("t").dims, Dims{8});
}

TEST(Safetensors, ReleasedTensorsReadTheSameAgain) {
  ScratchDirectory scratch;
  HostTensor big = counted(DType::f32, {64, 1024});
  write_safetensors(scratch / "x.safetensors", std::vector<NamedTensor>{{"t", &big}});
  SafetensorsFile file(scratch / "x.safetensors");
  const TensorView& view = file.get("t");
  file.release(view);
  EXPECT_EQ(std::memcmp(view.bytes.data(), big.bytes(), big.byte_size()), 0);
}

}  // namespace
}  // namespace strata::weights
