// Element types, their sizes and names, and exact conversions between the floating formats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

// The element types that StableHLO, safetensors and GGUF share. `pred` is one byte holding 0 or 1.
enum class DType : uint8_t {
  pred,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f8e4m3fn,
  f8e5m2,
  f8e8m0fnu,
  f16,
  bf16,
  f32,
  f64,
};

// Bytes of one element.
size_t size_of(DType dtype);

// MLIR spelling: "i1", "i32", "ui32", "bf16", "f8E4M3FN".
std::string_view mlir_name(DType dtype);

// Strata's own spelling, which command lines, errors and checkpoints use: "f32", "bf16", "u8",
// "pred".
std::string_view name_of(DType dtype);

// Inverse of name_of. Throws invalid_argument listing the known names.
DType parse_dtype(std::string_view name);

bool is_float(DType dtype);
bool is_signed_integer(DType dtype);
bool is_unsigned_integer(DType dtype);
inline bool is_integer(DType d) { return is_signed_integer(d) || is_unsigned_integer(d); }

// bf16 is the upper half of f32; rounding is to nearest even, NaN stays NaN.
inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
uint16_t f32_to_bf16(float value);

// IEEE binary16 with subnormals, infinities and NaN; rounding is to nearest even.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);

// The OCP 8-bit formats. E4M3FN has no infinity and NaN at 0x7f / 0xff; E5M2 is IEEE-like;
// E8M0FNU is an unsigned power of two with NaN at 0xff.
float f8e4m3fn_to_f32(uint8_t bits);
float f8e5m2_to_f32(uint8_t bits);
float f8e8m0fnu_to_f32(uint8_t bits);

// The DType of a C++ arithmetic type.
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bool>() {
  return DType::pred;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::i8;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::i16;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<uint16_t>() {
  return DType::u16;
}
template <>
constexpr DType dtype_of<uint32_t>() {
  return DType::u32;
}
template <>
constexpr DType dtype_of<uint64_t>() {
  return DType::u64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}

}  // namespace strata
