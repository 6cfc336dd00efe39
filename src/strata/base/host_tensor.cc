#include "strata/base/host_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "strata/base/error.h"

namespace strata {

int64_t element_count(std::span<const int64_t> dims) {
  int64_t n = 1;
  bool overflow = false;
  for (int64_t d : dims) {
    require(d >= 0, {.id = "base.negative_dim", .expected = "dims >= 0", .got = std::to_string(d)});
    if (__builtin_mul_overflow(n, d, &n)) overflow = true;
  }
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  require(!overflow, {.id = "base.dims_overflow",
                      .expected = "a product of dims below 2^63",
                      .got = "an overflow",
                      .code = Code::out_of_range});
  return n;
}

std::string shape_text(DType dtype, std::span<const int64_t> dims) {
  std::string text;
  for (int64_t d : dims) text += std::to_string(d) + "x";
  return text + std::string(name_of(dtype));
}

HostTensor::HostTensor(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)) {
  size_ = element_count(dims_);
  require(static_cast<uint64_t>(size_) <= uint64_t{INT64_MAX} / size_of(dtype_),
          {.id = "base.dims_overflow",
           .where = shape_text(dtype_, dims_),
           .expected = "fewer than 2^63 bytes",
           .got = "an overflow",
           .code = Code::out_of_range});
  size_t bytes = (byte_size() + 63) / 64 * 64;
  if (bytes == 0) bytes = 64;
  bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
  require(bytes_ != nullptr, {.id = "base.host_memory",
                              .where = shape_text(dtype_, dims_),
                              .expected = std::to_string(bytes) + " bytes of host memory",
                              .got = "no memory",
                              .code = Code::resource_exhausted});
  std::memset(bytes_.get(), 0, bytes);
}

void HostTensor::Free::operator()(std::byte* p) const { std::free(p); }

HostTensor HostTensor::clone() const {
  HostTensor t(dtype_, dims_);
  if (byte_size() > 0) std::memcpy(t.bytes(), bytes(), byte_size());
  return t;
}

void HostTensor::fill_from(const void* source, size_t bytes) {
  require(bytes == byte_size(), {.id = "base.value_count",
                                 .where = shape_text(dtype_, dims_),
                                 .expected = std::to_string(byte_size()) + " bytes",
                                 .got = std::to_string(bytes)});
  if (bytes > 0) std::memcpy(bytes_.get(), source, bytes);
}

void HostTensor::check_view(DType wanted) const {
  bool raw = (wanted == DType::u16 || wanted == DType::u8) && size_of(wanted) == size_of(dtype_);
  require(wanted == dtype_ || raw, {.id = "base.tensor_view",
                                    .where = shape_text(dtype_, dims_),
                                    .expected = "a view as " + std::string(name_of(dtype_)),
                                    .got = std::string(name_of(wanted))});
}

namespace {

template <class T>
T load(const std::byte* p, int64_t i) {
  T v;
  std::memcpy(&v, p + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}

template <class T>
void store(std::byte* p, int64_t i, T v) {
  std::memcpy(p + static_cast<size_t>(i) * sizeof(T), &v, sizeof(T));
}

}  // namespace

double HostTensor::at(int64_t i) const {
  require(i >= 0 && i < size_, {.id = "base.tensor_index",
                                .where = shape_text(dtype_, dims_),
                                .expected = "an index below " + std::to_string(size_),
                                .got = std::to_string(i),
                                .code = Code::out_of_range});
  const std::byte* p = bytes_.get();
  switch (dtype_) {
    case DType::pred:
      return load<uint8_t>(p, i) != 0;
    case DType::i8:
      return load<int8_t>(p, i);
    case DType::i16:
      return load<int16_t>(p, i);
    case DType::i32:
      return load<int32_t>(p, i);
    case DType::i64:
      return static_cast<double>(load<int64_t>(p, i));
    case DType::u8:
      return load<uint8_t>(p, i);
    case DType::u16:
      return load<uint16_t>(p, i);
    case DType::u32:
      return load<uint32_t>(p, i);
    case DType::u64:
      return static_cast<double>(load<uint64_t>(p, i));
    case DType::f8e4m3fn:
      return f8e4m3fn_to_f32(load<uint8_t>(p, i));
    case DType::f8e5m2:
      return f8e5m2_to_f32(load<uint8_t>(p, i));
    case DType::f8e8m0fnu:
      return f8e8m0fnu_to_f32(load<uint8_t>(p, i));
    case DType::f16:
      return f16_to_f32(load<uint16_t>(p, i));
    case DType::bf16:
      return bf16_to_f32(load<uint16_t>(p, i));
    case DType::f32:
      return load<float>(p, i);
    case DType::f64:
      return load<double>(p, i);
  }
  return 0;
}

void HostTensor::set(int64_t i, double v) {
  require(i >= 0 && i < size_, {.id = "base.tensor_index",
                                .where = shape_text(dtype_, dims_),
                                .expected = "an index below " + std::to_string(size_),
                                .got = std::to_string(i),
                                .code = Code::out_of_range});
  std::byte* p = bytes_.get();
  switch (dtype_) {
    case DType::pred:
      return store<uint8_t>(p, i, v != 0);
    case DType::i8:
      return store(p, i, static_cast<int8_t>(v));
    case DType::i16:
      return store(p, i, static_cast<int16_t>(v));
    case DType::i32:
      return store(p, i, static_cast<int32_t>(v));
    case DType::i64:
      return store(p, i, static_cast<int64_t>(v));
    case DType::u8:
      return store(p, i, static_cast<uint8_t>(v));
    case DType::u16:
      return store(p, i, static_cast<uint16_t>(v));
    case DType::u32:
      return store(p, i, static_cast<uint32_t>(v));
    case DType::u64:
      return store(p, i, static_cast<uint64_t>(v));
    case DType::f16:
      return store(p, i, f32_to_f16(static_cast<float>(v)));
    case DType::bf16:
      return store(p, i, f32_to_bf16(static_cast<float>(v)));
    case DType::f32:
      return store(p, i, static_cast<float>(v));
    case DType::f64:
      return store(p, i, v);
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::f8e8m0fnu:
      break;
  }
  unimplemented({.id = "base.store_f8",
                 .where = "HostTensor::set",
                 .expected = "an element type that can be written on the host",
                 .got = std::string(name_of(dtype_)),
                 .cure = "Quantise on the device instead"});
}

HostTensor convert(const HostTensor& source, DType dtype) {
  HostTensor out(dtype, source.dims());
  if (source.dtype() == dtype) return source.clone();
  for (int64_t i = 0; i < source.size(); ++i) out.set(i, source.at(i));
  return out;
}

}  // namespace strata
