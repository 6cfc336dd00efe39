// Damaged safetensors files: each is refused with the file and the tensor named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "strata/weights/files_for_test.h"
#include "strata/weights/safetensors.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::weights {
namespace {

const std::string kSixteen(16, '\1');

struct Bad {
  const char* name;
  std::string image;
  const char* id;
  const char* part;
};

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets,
                std::string_view data) {
  return safetensors_image("{" + entry("t.w", dtype, shape, offsets) + "}", data);
}

std::string two(std::string_view first, std::string_view second, std::string_view data) {
  return safetensors_image("{" + std::string(first) + "," + std::string(second) + "}", data);
}

std::vector<Bad> damaged_lengths() {
  const uint64_t past = 4096, wrapping = ~uint64_t{0}, huge = 100'000'001;
  std::string good = "{" + entry("t", "F32", "[4]", "[0,16]") + "}";
  return {
      {"empty", "", "weights.st_size", "a file of 0 bytes"},
      {"seven_bytes", std::string("\x08\0\0\0\0\0\0", 7), "weights.st_size", "a file of 7 bytes"},
      {"header_past_eof", safetensors_image(good, kSixteen, &past), "weights.st_header_length",
       "got 4096"},
      {"header_len_u64max", safetensors_image(good, kSixteen, &wrapping),
       "weights.st_header_length", "got 18446744073709551615"},
      {"header_len_zero", safetensors_image("", kSixteen), "weights.st_header_length", "got 0"},
      {"header_len_over_limit", safetensors_image(good, std::string(100'000'100, ' '), &huge),
       "weights.st_header_length", "from 1 to 100000000"},
      {"html_page", "<!DOCTYPE html><html><body>404</body></html>\n", "weights.st_header_length",
       "an HTML page"},
      {"lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
       "weights.st_header_length", "Git LFS pointer"},
  };
}

std::vector<Bad> damaged_headers() {
  std::string e = entry("t", "F32", "[4]", "[0,16]");
  return {
      {"not_json", safetensors_image("{\"t\": oops}      ", kSixteen), "weights.st_header_json",
       "an error at byte"},
      {"array_header", safetensors_image("[]", ""), "weights.st_header_type", "an array"},
      {"text_header", safetensors_image("\"t\"", ""), "weights.st_header_type", "the text 't'"},
      {"nul_after", safetensors_image("{}" + std::string(4, '\0'), ""), "weights.st_header_json",
       "a NUL at byte 10"},
      {"byte_order_mark", safetensors_image("\xef\xbb\xbf{}", ""), "weights.st_header_json",
       "byte-order mark"},
      {"not_utf8", safetensors_image("{\"\xff\":1}", ""), "weights.st_header_json", "UTF-8"},
      {"lone_surrogate", safetensors_image("{\"\\ud800\":1}", ""), "weights.st_header_json",
       "surrogate"},
      {"rest_behind_json", safetensors_image("{} {}", ""), "weights.st_header_json",
       "expected end"},
      {"metadata_number", safetensors_image("{\"__metadata__\":{\"step\":1}}", ""),
       "weights.st_metadata", "the number 1 for 'step'"},
      {"metadata_array", safetensors_image("{\"__metadata__\":[]}", ""), "weights.st_metadata",
       "an array"},
      {"metadata_key_twice", safetensors_image("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", ""),
       "weights.st_duplicate", "'k' twice"},
      {"same_name_twice", two(e, e, kSixteen + kSixteen), "weights.st_duplicate", "tensor 't'"},
      {"field_twice", safetensors_image("{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", kSixteen),
       "weights.st_duplicate", "'dtype' twice"},
      {"no_shape",
       safetensors_image("{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", kSixteen),
       "weights.st_entry", "got no shape"},
      {"entry_is_null", safetensors_image("{\"t\":null}", ""), "weights.st_entry", "got null"},
      {"entry_is_array", safetensors_image("{\"t\":[\"F32\",[4],[0,16]]}", kSixteen),
       "weights.st_entry", "an array"},
      {"nested_shape", one("F32", "[[4]]", "[0,16]", kSixteen), "weights.st_entry",
       "field 'shape'"},
      {"object_in_shape", one("F32", "[{}]", "[0,16]", kSixteen), "weights.st_entry", "an object"},
      {"text_in_shape", one("F32", "[\"4\"]", "[0,16]", kSixteen), "weights.st_entry",
       "the text '4'"},
      {"true_in_shape", one("F32", "[true]", "[0,16]", kSixteen), "weights.st_entry", "a boolean"},
      {"fraction_in_shape", one("F32", "[4.0]", "[0,16]", kSixteen), "weights.st_entry",
       "the number 4.0"},
      {"negative_dim", one("F32", "[-4]", "[0,16]", kSixteen), "weights.st_entry",
       "the negative number -4"},
      {"three_offsets", one("F32", "[4]", "[0,16,16]", kSixteen), "weights.st_entry", "got 3"},
      {"number_for_dtype", safetensors_image("{\"t\":{\"dtype\":7}}", ""), "weights.st_entry",
       "field 'dtype'"},
  };
}

std::vector<Bad> damaged_tensors() {
  return {
      {"offsets_past_eof", one("F32", "[8]", "[0,32]", kSixteen), "weights.st_past_end",
       "lacks its last 16 bytes"},
      {"begin_after_end", one("F32", "[4]", "[16,0]", kSixteen), "weights.st_offsets", "[16, 0]"},
      {"shape_bigger_than_bytes", one("F32", "[1000,1000]", "[0,16]", kSixteen), "weights.st_bytes",
       "4000000 bytes for F32[1000, 1000]"},
      {"f64_shape_mismatch", one("F64", "[4]", "[0,16]", kSixteen), "weights.st_bytes",
       "32 bytes for F64[4]"},
      {"same_range_twice",
       two(entry("k_proj.weight", "F32", "[4]", "[0,16]"),
           entry("v_proj.weight", "F32", "[4]", "[0,16]"), kSixteen),
       "weights.st_overlap", "inside tensor 'k_proj.weight'"},
      {"partial_overlap",
       two(entry("a", "F32", "[2]", "[0,8]"), entry("b", "F32", "[3]", "[4,16]"), kSixteen),
       "weights.st_overlap", "tensor 'b'"},
      {"hole_between",
       two(entry("a", "F32", "[1]", "[0,4]"), entry("b", "F32", "[1]", "[12,16]"), kSixteen),
       "weights.st_hole", "8 bytes before it belong to no tensor"},
      {"empty_inside_another",
       two(entry("a", "F32", "[4]", "[0,16]"), entry("e", "F32", "[0]", "[4,4]"), kSixteen),
       "weights.st_overlap", "tensor 'e'"},
      {"trailing_bytes", one("F32", "[2]", "[0,8]", kSixteen), "weights.st_trailing",
       "8 more bytes"},
      {"unknown_dtype", one("F31", "[4]", "[0,16]", kSixteen), "weights.st_dtype", "'F31'"},
      {"lower_case_dtype", one("f32", "[4]", "[0,16]", kSixteen), "weights.st_dtype", "'f32'"},
      {"empty_dtype", one("", "[]", "[0,0]", ""), "weights.st_dtype", "tensor 't.w'"},
      {"truncated_download",
       two(entry("a", "F32", "[2]", "[0,8]"), entry("b", "F32", "[64]", "[8,264]"), kSixteen),
       "weights.st_past_end", "tensor 'b'"},
      {"product_overflows", one("F32", "[4611686018427387904,4]", "[0,16]", kSixteen),
       "weights.st_shape", "[4611686018427387904, 4] of F32"},
      {"dim_over_int64", one("U8", "[9223372036854775808]", "[0,16]", kSixteen), "weights.st_shape",
       "9223372036854775808"},
      {"offset_over_uint64", one("U8", "[16]", "[0,18446744073709551616]", kSixteen),
       "weights.st_entry", "the number 18446744073709551616"},
      {"f4", one("F4", "[2,8]", "[0,8]", "12345678"), "weights.st_dtype_not_served", "got F4"},
      {"complex", one("C64", "[2]", "[0,16]", kSixteen), "weights.st_dtype_not_served",
       "tensor 't.w'"},
  };
}

void expect_refused(const std::vector<Bad>& rows) {
  ScratchDirectory scratch;
  for (const Bad& bad : rows) {
    SCOPED_TRACE(bad.name);
    std::string file = std::string(bad.name) + ".safetensors";
    put_file(scratch / file, bad.image);
    auto open = [&] { SafetensorsFile opened(scratch / file); };
    expect_error(open, bad.id, bad.part);
    expect_error(open, bad.id, file);
  }
}

TEST(SafetensorsError, DamagedLength) { expect_refused(damaged_lengths()); }
TEST(SafetensorsError, DamagedHeader) { expect_refused(damaged_headers()); }
TEST(SafetensorsError, DamagedTensor) { expect_refused(damaged_tensors()); }

TEST(SafetensorsError, UnservedTypesAreUnimplementedAndTheRestDataLoss) {
  std::string f4 = one("F4", "[2,8]", "[0,8]", "12345678");
  std::string f31 = one("F31", "[4]", "[0,16]", kSixteen);
  EXPECT_EQ(error_of([&] { parse_safetensors(bytes_of(f4), "x"); }).code(), Code::unimplemented);
  EXPECT_EQ(error_of([&] { parse_safetensors(bytes_of(f31), "x"); }).code(), Code::data_loss);
}

TEST(SafetensorsError, MissingFile) {
  ScratchDirectory scratch;
  Error e = error_of([&] { SafetensorsFile f(scratch / "absent.safetensors"); });
  EXPECT_EQ(e.code(), Code::not_found);
  EXPECT_NE(std::string(e.what()).find("absent.safetensors"), std::string::npos);
}

std::string small_image() {
  return safetensors_image(
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("a", "F32", "[2]", "[0,8]") + "," +
          entry("b", "BF16", "[2,1]", "[8,12]") + "," + entry("c", "I32", "[]", "[12,16]") + "}",
      kSixteen);
}

TEST(SafetensorsError, TruncationAtEveryByteIsRefused) {
  std::string whole = small_image();
  ASSERT_EQ(parse_safetensors(bytes_of(whole), "x").tensors.size(), 3u);
  for (size_t n = 0; n < whole.size(); ++n) {
    std::string cut = whole.substr(0, n);  // its own allocation, so that sanitizers see over-reads
    EXPECT_THROW(parse_safetensors(bytes_of(cut), "x"), Error) << n;
  }
}

// A flipped header bit may give another lawful header, but never a view outside the file.
TEST(SafetensorsError, EveryFlippedHeaderBitIsRefusedOrStaysInBounds) {
  std::string whole = small_image();
  size_t refused = 0, header_bits = (whole.size() - kSixteen.size()) * 8;
  for (size_t bit = 0; bit < header_bits; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      uint64_t covered = 0;
      for (const TensorView& t : parse_safetensors(bytes_of(flipped), "x").tensors) {
        EXPECT_LE(t.offset + t.bytes.size(), flipped.size());
        EXPECT_EQ(t.bytes.size(), static_cast<size_t>(element_count(t.dims)) * size_of(t.dtype));
        covered += t.bytes.size();
      }
      EXPECT_EQ(covered, kSixteen.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, header_bits / 2);
}

TEST(SafetensorsError, RandomDamageNeverEscapes) {
  std::string whole = small_image();
  std::mt19937 random(7);
  size_t refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (int k = 0; k < 4; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      parse_safetensors(bytes_of(damaged), "x");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000u);
}

TEST(SafetensorsWriterError, Names) {
  ScratchDirectory scratch;
  auto write = [&](std::string a, std::string b) {
    return [&scratch, a, b] {
      SafetensorsWriter w(scratch / "x.safetensors", {{a, DType::u8, {1}}, {b, DType::u8, {1}}});
    };
  };
  expect_error(write("n", "n"), "weights.write_name", "the name twice");
  expect_error(write("n", "__metadata__"), "weights.write_name", "reserved");
  expect_error(write("n", "\xff"), "weights.write_name", "not UTF-8");
  EXPECT_FALSE(std::filesystem::exists(scratch / "x.safetensors"));
}

TEST(SafetensorsWriterError, ByteCounts) {
  ScratchDirectory scratch;
  auto write = [&](size_t n) {
    return [&scratch, n] {
      SafetensorsWriter w(scratch / "x.safetensors", {{"t", DType::f32, {4}}});
      w.write(bytes_of(std::string(n, 'x')));
      w.finish();
    };
  };
  expect_error(write(17), "weights.write_excess", "at most the 16 bytes");
  expect_error(write(15), "weights.write_short", "1 bytes fewer");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << "a failed write left its file behind";
}

}  // namespace
}  // namespace strata::weights
