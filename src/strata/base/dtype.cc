#include "strata/base/dtype.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "strata/base/error.h"

namespace strata {
namespace {

struct Row {
  DType dtype;
  size_t size;
  std::string_view name;
  std::string_view mlir;
};

constexpr std::array<Row, 16> kRows = {{
    {DType::pred, 1, "pred", "i1"},
    {DType::i8, 1, "i8", "i8"},
    {DType::i16, 2, "i16", "i16"},
    {DType::i32, 4, "i32", "i32"},
    {DType::i64, 8, "i64", "i64"},
    {DType::u8, 1, "u8", "ui8"},
    {DType::u16, 2, "u16", "ui16"},
    {DType::u32, 4, "u32", "ui32"},
    {DType::u64, 8, "u64", "ui64"},
    {DType::f8e4m3fn, 1, "f8e4m3fn", "f8E4M3FN"},
    {DType::f8e5m2, 1, "f8e5m2", "f8E5M2"},
    {DType::f8e8m0fnu, 1, "f8e8m0fnu", "f8E8M0FNU"},
    {DType::f16, 2, "f16", "f16"},
    {DType::bf16, 2, "bf16", "bf16"},
    {DType::f32, 4, "f32", "f32"},
    {DType::f64, 8, "f64", "f64"},
}};

const Row& row(DType dtype) { return kRows.at(static_cast<size_t>(dtype)); }

}  // namespace

size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view mlir_name(DType dtype) { return row(dtype).mlir; }
std::string_view name_of(DType dtype) { return row(dtype).name; }

DType parse_dtype(std::string_view name) {
  std::string known;
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
    known += (known.empty() ? "" : ", ") + std::string(r.name);
  }
  fail({.id = "base.dtype_name",
        .expected = "an element type, one of " + known,
        .got = "'" + std::string(name) + "'"});
}

bool is_float(DType d) { return d >= DType::f8e4m3fn; }
bool is_signed_integer(DType d) { return d >= DType::i8 && d <= DType::i64; }
bool is_unsigned_integer(DType d) { return d >= DType::u8 && d <= DType::u64; }

uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  uint32_t rounding = 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>((bits + rounding) >> 16);
}

float f16_to_f32(uint16_t bits) {
  int exponent = (bits >> 10) & 0x1f;
  int mantissa = bits & 0x3ff;
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  uint32_t widened = exponent == 0x1f ? 0xff : uint32_t(exponent) + 112;
  return std::bit_cast<float>(sign | (widened << 23) | (uint32_t(mantissa) << 13));
}

uint16_t f32_to_f16(float value) {
  uint16_t sign = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) >> 16) & 0x8000);
  if (std::isnan(value)) return sign | 0x7e00;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  // Scaling by 2^24 turns the subnormal range into integers; nearbyint rounds to nearest even.
  if (magnitude < std::ldexp(1.0f, -14)) {
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  int exponent = 0;
  float fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
  // A mantissa rounded up to 2048 carries into the exponent by plain addition.
  return static_cast<uint16_t>(sign + (uint32_t(exponent + 13) << 10) + mantissa);
}

float f8e4m3fn_to_f32(uint8_t bits) {
  int exponent = (bits >> 3) & 0xf;
  int mantissa = bits & 7;
  float sign = (bits & 0x80) ? -1.0f : 1.0f;
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(mantissa + 8), exponent - 10);
}

float f8e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

float f8e8m0fnu_to_f32(uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, int{bits} - 127);
}

}  // namespace strata
