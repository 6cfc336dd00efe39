// Conversions checked against the definition of each format over every bit pattern.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "strata/base/dtype.h"

namespace strata {
namespace {

// The value of a small float with the given field widths, from the definition, in double.
double defined_value(uint32_t bits, int exponent_bits, int mantissa_bits, int bias) {
  uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  double sign = (bits >> (mantissa_bits + exponent_bits)) & 1 ? -1 : 1;
  double fraction = mantissa / std::pow(2.0, mantissa_bits);
  if (exponent == 0) return sign * fraction * std::pow(2.0, 1 - bias);
  return sign * (1 + fraction) * std::pow(2.0, static_cast<int>(exponent) - bias);
}

TEST(DTypePropertyTest, EveryFloat16PatternDecodesAndEncodesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = f16_to_f32(static_cast<uint16_t>(bits));
    if ((bits & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(value), (bits & 0x3ff) != 0);
      EXPECT_EQ(std::isinf(value), (bits & 0x3ff) == 0);
    } else {
      ASSERT_EQ(value, defined_value(bits, 5, 10, 15)) << bits;
    }
    uint16_t back = f32_to_f16(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(f16_to_f32(back))) << bits;
      ASSERT_EQ(back & 0x8000, static_cast<int>(bits & 0x8000)) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(DTypePropertyTest, EveryBfloat16PatternDecodesAndEncodesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = bf16_to_f32(static_cast<uint16_t>(bits));
    if ((bits & 0x7f80) != 0x7f80) {
      ASSERT_EQ(value, defined_value(bits, 8, 7, 127)) << bits;
    }
    uint16_t back = f32_to_bf16(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(back))) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(DTypePropertyTest, EveryFloat8PatternDecodes) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    auto byte = static_cast<uint8_t>(bits);
    if ((bits & 0x7f) != 0x7f) {
      ASSERT_EQ(f8e4m3fn_to_f32(byte), defined_value(bits, 4, 3, 7));
    }
    if ((bits & 0x7c) != 0x7c) {
      ASSERT_EQ(f8e5m2_to_f32(byte), defined_value(bits, 5, 2, 15));
    }
    if (bits != 0xff) {
      ASSERT_EQ(f8e8m0fnu_to_f32(byte), std::pow(2.0, int(bits) - 127.0));
    }
  }
}

// Rounding is right when no neighbour is nearer and a tie goes to the even pattern.
template <class Decode>
void expect_nearest(float value, uint16_t got, Decode decode) {
  double here = std::fabs(double(decode(got)) - value);
  for (int step : {-1, 1}) {
    auto neighbour = static_cast<uint16_t>(got + step);
    float other = decode(neighbour);
    // Zero and infinity have one neighbour; across them the sign bit flips.
    if (!std::isfinite(other) || std::signbit(other) != std::signbit(value)) continue;
    double there = std::fabs(double(other) - value);
    ASSERT_LE(here, there) << value;
    if (here == there) {
      ASSERT_EQ(got & 1, 0) << value;
    }
  }
}

TEST(DTypePropertyTest, RandomFloatsRoundToTheNearest) {
  constexpr uint32_t kSeed = 20240607;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 200000; ++i) {
    float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    uint16_t bf16 = f32_to_bf16(value);
    if (std::isfinite(bf16_to_f32(bf16))) expect_nearest(value, bf16, bf16_to_f32);
    // Scaled into the range of f16, its subnormals included.
    int exponent = 0;
    float small = std::ldexp(std::frexp(value, &exponent), static_cast<int>(random() % 44) - 28);
    uint16_t f16 = f32_to_f16(small);
    if (std::isfinite(f16_to_f32(f16))) expect_nearest(small, f16, f16_to_f32);
  }
}

}  // namespace
}  // namespace strata
