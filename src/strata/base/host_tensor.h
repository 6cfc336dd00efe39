// HostTensor: bytes on the host with an element type and dims, row-major and 64-byte aligned (the
// alignment below which PJRT copies a host buffer silently).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/base/dtype.h"

namespace strata {

using Dims = std::vector<int64_t>;

// Product of the dims (1 for rank 0). Throws out_of_range when it does not fit in int64.
int64_t element_count(std::span<const int64_t> dims);

// "2x3xf32" style text, "f32" for rank 0.
std::string shape_text(DType dtype, std::span<const int64_t> dims);

// Move-only owner of its bytes; `clone()` copies. Not thread-safe while being written.
class HostTensor {
 public:
  HostTensor() = default;
  // Zero-filled storage. Throws invalid_argument on a negative dim, resource_exhausted when the
  // memory cannot be had.
  HostTensor(DType dtype, Dims dims);
  HostTensor(HostTensor&&) noexcept = default;
  HostTensor& operator=(HostTensor&&) noexcept = default;

  template <class T>
  static HostTensor of(Dims dims, std::span<const T> values) {
    HostTensor t(dtype_of<T>(), std::move(dims));
    t.fill_from(values.data(), values.size() * sizeof(T));
    return t;
  }
  template <class T>
  static HostTensor of(Dims dims, const std::vector<T>& values) {
    return of<T>(std::move(dims), std::span<const T>(values));
  }
  template <class T>
  static HostTensor scalar(T value) {
    return of<T>({}, std::span<const T>(&value, 1));
  }

  HostTensor clone() const;

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t size() const { return size_; }
  size_t byte_size() const { return static_cast<size_t>(size_) * size_of(dtype_); }
  std::byte* bytes() { return bytes_.get(); }
  const std::byte* bytes() const { return bytes_.get(); }

  // Typed view. T must be exactly the element type (uint16_t also views f16 and bf16, uint8_t any
  // one-byte type). Throws invalid_argument otherwise.
  template <class T>
  std::span<T> data() {
    check_view(dtype_of<T>());
    return {reinterpret_cast<T*>(bytes_.get()), static_cast<size_t>(size_)};
  }
  template <class T>
  std::span<const T> data() const {
    check_view(dtype_of<T>());
    return {reinterpret_cast<const T*>(bytes_.get()), static_cast<size_t>(size_)};
  }

  // Element i in row-major order as a double (exact for every type but 64-bit integers).
  double at(int64_t index) const;
  // Stores a double, rounded to the element type.
  void set(int64_t index, double value);

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  void fill_from(const void* source, size_t bytes);
  void check_view(DType wanted) const;

  DType dtype_ = DType::f32;
  Dims dims_;
  int64_t size_ = 0;
  std::unique_ptr<std::byte[], Free> bytes_;
};

// Element-wise conversion; floats round to nearest even, float to integer truncates.
HostTensor convert(const HostTensor& source, DType dtype);

}  // namespace strata
