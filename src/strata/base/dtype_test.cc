#include "strata/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace strata {
namespace {

constexpr DType kAll[] = {DType::pred, DType::i8,       DType::i16,    DType::i32,
                          DType::i64,  DType::u8,       DType::u16,    DType::u32,
                          DType::u64,  DType::f8e4m3fn, DType::f8e5m2, DType::f8e8m0fnu,
                          DType::f16,  DType::bf16,     DType::f32,    DType::f64};

TEST(DTypeTest, NamesRoundTripAndClassesPartitionTheTypes) {
  for (DType d : kAll) {
    EXPECT_EQ(parse_dtype(name_of(d)), d);
    int classes = is_float(d) + is_signed_integer(d) + is_unsigned_integer(d) + (d == DType::pred);
    EXPECT_EQ(classes, 1) << name_of(d);
  }
}

TEST(DTypeTest, SizesAndMlirNames) {
  EXPECT_EQ(size_of(DType::pred), 1u);
  EXPECT_EQ(size_of(DType::f8e8m0fnu), 1u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::u32), 4u);
  EXPECT_EQ(size_of(DType::i64), 8u);
  EXPECT_EQ(mlir_name(DType::pred), "i1");
  EXPECT_EQ(mlir_name(DType::u64), "ui64");
  EXPECT_EQ(mlir_name(DType::f8e4m3fn), "f8E4M3FN");
}

TEST(DTypeTest, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even below
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, even above
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);  // overflows to infinity
  EXPECT_EQ(f32_to_bf16(-0.0f), 0x8000);
}

TEST(DTypeTest, Float16RoundsToNearestEvenAtEveryEdge) {
  EXPECT_EQ(f32_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::ldexp(1.0f, -24)), 0x0001);
  EXPECT_EQ(f32_to_f16(std::ldexp(1.0f, -25)), 0x0000);  // tie with zero
  EXPECT_EQ(f32_to_f16(std::ldexp(1.5f, -24)), 0x0002);  // tie, even above
  EXPECT_EQ(f32_to_f16(1.0f + std::ldexp(1.0f, -11)), 0x3c00);
  EXPECT_EQ(f32_to_f16(1.0f + std::ldexp(3.0f, -11)), 0x3c02);
  EXPECT_EQ(f32_to_f16(2.0f - std::ldexp(1.0f, -12)), 0x4000);  // carries into the exponent
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(DTypeTest, Float8E4M3SpecialValues) {
  EXPECT_EQ(f8e4m3fn_to_f32(0x7e), 448.0f);  // the largest; there is no infinity
  EXPECT_TRUE(std::isnan(f8e4m3fn_to_f32(0x7f)));
  EXPECT_TRUE(std::isnan(f8e4m3fn_to_f32(0xff)));
  EXPECT_EQ(f8e4m3fn_to_f32(0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(f8e4m3fn_to_f32(0x08), std::ldexp(1.0f, -6));
  EXPECT_EQ(f8e4m3fn_to_f32(0xb8), -1.0f);
  EXPECT_TRUE(std::signbit(f8e4m3fn_to_f32(0x80)));
}

TEST(DTypeTest, Float8E5M2SpecialValues) {
  EXPECT_EQ(f8e5m2_to_f32(0x7b), 57344.0f);
  EXPECT_EQ(f8e5m2_to_f32(0x7c), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f8e5m2_to_f32(0x7d)));
  EXPECT_EQ(f8e5m2_to_f32(0x01), std::ldexp(1.0f, -16));
  EXPECT_EQ(f8e5m2_to_f32(0xbc), -1.0f);
}

TEST(DTypeTest, Float8E8M0IsAPowerOfTwo) {
  EXPECT_EQ(f8e8m0fnu_to_f32(127), 1.0f);
  EXPECT_EQ(f8e8m0fnu_to_f32(0), std::ldexp(1.0f, -127));
  EXPECT_EQ(f8e8m0fnu_to_f32(254), std::ldexp(1.0f, 127));
  EXPECT_TRUE(std::isnan(f8e8m0fnu_to_f32(255)));
}

}  // namespace
}  // namespace strata
