#include "strata/weights/ggml_types.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "strata/base/dtype.h"
#include "strata/base/error.h"

namespace strata::weights {
namespace {

using Decode = void (*)(const uint8_t* blocks, std::span<float> out);

uint16_t load_u16(const uint8_t* p) {
  uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

float load_f16(const uint8_t* p) { return f16_to_f32(load_u16(p)); }

void decode_f32(const uint8_t* in, std::span<float> out) {
  std::memcpy(out.data(), in, out.size_bytes());
}

void decode_f16(const uint8_t* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = load_f16(in + 2 * i);
}

void decode_bf16(const uint8_t* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_f32(load_u16(in + 2 * i));
}

// 32 elements: f16 scale, 32 signed bytes.
void decode_q8_0(const uint8_t* in, std::span<float> out) {
  for (size_t at = 0; at < out.size(); at += 32, in += 34) {
    float scale = load_f16(in);
    for (size_t i = 0; i < 32; ++i) {
      out[at + i] = scale * static_cast<float>(static_cast<int8_t>(in[2 + i]));
    }
  }
}

// 32 elements: f16 scale, 16 bytes whose low nibbles are the first half; stored with offset 8.
void decode_q4_0(const uint8_t* in, std::span<float> out) {
  for (size_t at = 0; at < out.size(); at += 32, in += 18) {
    float scale = load_f16(in);
    for (size_t i = 0; i < 16; ++i) {
      out[at + i] = scale * static_cast<float>((in[2 + i] & 0xf) - 8);
      out[at + 16 + i] = scale * static_cast<float>((in[2 + i] >> 4) - 8);
    }
  }
}

// One multiply, one add, each rounded: a fused form would differ in the last bit.
float scaled_plus(float scale, int q, float offset) {
  float product = scale * static_cast<float>(q);
  return product + offset;
}

// 32 elements: f16 scale, f16 minimum, nibbles as in Q4_0 without offset.
void decode_q4_1(const uint8_t* in, std::span<float> out) {
  for (size_t at = 0; at < out.size(); at += 32, in += 20) {
    float scale = load_f16(in), minimum = load_f16(in + 2);
    for (size_t i = 0; i < 16; ++i) {
      out[at + i] = scaled_plus(scale, in[4 + i] & 0xf, minimum);
      out[at + 16 + i] = scaled_plus(scale, in[4 + i] >> 4, minimum);
    }
  }
}

// Six-bit scale and minimum of group j (0..7) out of Q4_K's 12 bytes: groups 0..3 lie plainly in
// bytes 0..3 and 4..7; groups 4..7 have their low nibbles in bytes 8..11 and their two high bits
// above the six of bytes 0..7.
void unpack_scale(const uint8_t* packed, size_t j, int& scale, int& minimum) {
  if (j < 4) {
    scale = packed[j] & 0x3f;
    minimum = packed[j + 4] & 0x3f;
  } else {
    scale = (packed[j + 4] & 0xf) | ((packed[j - 4] >> 2) & 0x30);
    minimum = (packed[j + 4] >> 4) | ((packed[j] >> 2) & 0x30);
  }
}

// 256 elements: f16 scale, f16 scale of the minima, 12 bytes of group scales, 128 bytes of
// nibbles: each 32 bytes hold one group of 32 in the low nibbles and the next in the high ones.
void decode_q4_k(const uint8_t* in, std::span<float> out) {
  for (size_t at = 0; at < out.size(); at += 256, in += 144) {
    float scale = load_f16(in), minimum_scale = load_f16(in + 2);
    for (size_t j = 0; j < 8; ++j) {
      int group_scale = 0, group_minimum = 0;
      unpack_scale(in + 4, j, group_scale, group_minimum);
      float d = scale * static_cast<float>(group_scale);
      float m = minimum_scale * static_cast<float>(group_minimum);
      const uint8_t* nibbles = in + 16 + 32 * (j / 2);
      for (size_t i = 0; i < 32; ++i) {
        out[at + 32 * j + i] = scaled_plus(d, (nibbles[i] >> (4 * (j % 2))) & 0xf, -m);
      }
    }
  }
}

// 256 elements: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed group scales,
// f16 scale; six-bit values with offset 32. Each half of 128 elements takes 64 and 32 bytes.
void decode_q6_k(const uint8_t* in, std::span<float> out) {
  for (size_t at = 0; at < out.size(); at += 256, in += 210) {
    float scale = load_f16(in + 208);
    for (size_t i = 0; i < 256; ++i) {
      size_t half = i / 128, quarter = i / 32 % 4, lane = i % 32;
      int low = in[64 * half + 32 * (quarter % 2) + lane] >> (4 * (quarter / 2)) & 0xf;
      int high = in[128 + 32 * half + lane] >> (2 * quarter) & 3;
      float d = scale * static_cast<float>(static_cast<int8_t>(in[192 + i / 16]));
      out[at + i] = d * static_cast<float>((low | high << 4) - 32);
    }
  }
}

struct Row {
  GgmlType type;
  Decode decode;
};

// Every type whose size is known, so that inspection can list what cannot be decoded.
constexpr std::array<Row, 34> kRows = {{
    {{0, "F32", 1, 4}, decode_f32},        {{1, "F16", 1, 2}, decode_f16},
    {{2, "Q4_0", 32, 18}, decode_q4_0},    {{3, "Q4_1", 32, 20}, decode_q4_1},
    {{6, "Q5_0", 32, 22}, nullptr},        {{7, "Q5_1", 32, 24}, nullptr},
    {{8, "Q8_0", 32, 34}, decode_q8_0},    {{9, "Q8_1", 32, 40}, nullptr},
    {{10, "Q2_K", 256, 84}, nullptr},      {{11, "Q3_K", 256, 110}, nullptr},
    {{12, "Q4_K", 256, 144}, decode_q4_k}, {{13, "Q5_K", 256, 176}, nullptr},
    {{14, "Q6_K", 256, 210}, decode_q6_k}, {{15, "Q8_K", 256, 292}, nullptr},
    {{16, "IQ2_XXS", 256, 66}, nullptr},   {{17, "IQ2_XS", 256, 74}, nullptr},
    {{18, "IQ3_XXS", 256, 98}, nullptr},   {{19, "IQ1_S", 256, 50}, nullptr},
    {{20, "IQ4_NL", 32, 18}, nullptr},     {{21, "IQ3_S", 256, 110}, nullptr},
    {{22, "IQ2_S", 256, 82}, nullptr},     {{23, "IQ4_XS", 256, 136}, nullptr},
    {{24, "I8", 1, 1}, nullptr},           {{25, "I16", 1, 2}, nullptr},
    {{26, "I32", 1, 4}, nullptr},          {{27, "I64", 1, 8}, nullptr},
    {{28, "F64", 1, 8}, nullptr},          {{29, "IQ1_M", 256, 56}, nullptr},
    {{30, "BF16", 1, 2}, decode_bf16},     {{34, "TQ1_0", 256, 54}, nullptr},
    {{35, "TQ2_0", 256, 66}, nullptr},     {{39, "MXFP4", 32, 17}, nullptr},
    {{40, "NVFP4", 64, 36}, nullptr},      {{41, "Q1_0", 128, 18}, nullptr},
}};

const Row* find_row(uint32_t id) {
  auto it = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.type.id == id; });
  return it == kRows.end() ? nullptr : &*it;
}

}  // namespace

const GgmlType* ggml_type(uint32_t id) {
  const Row* row = find_row(id);
  return row == nullptr ? nullptr : &row->type;
}

bool can_dequantise(const GgmlType& type) {
  const Row* row = find_row(type.id);
  return row != nullptr && row->decode != nullptr;
}

void dequantise(const GgmlType& type, std::span<const std::byte> blocks, std::span<float> out,
                const std::string& where) {
  if (!can_dequantise(type)) {
    unimplemented({.id = "weights.ggml_type",
                   .where = where,
                   .expected = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K or Q6_K",
                   .got = std::string(type.name),
                   .cure = "Use a file with one of these types"});
  }
  invariant(out.size() % type.block_elements == 0 &&
                out.size() / type.block_elements * type.block_bytes == blocks.size(),
            "weights.ggml_blocks", "whole blocks for every element");
  find_row(type.id)->decode(reinterpret_cast<const uint8_t*>(blocks.data()), out);
}

}  // namespace strata::weights
