// ir::Type: an element type and dims, with nothing stored.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "strata/base/dtype.h"
#include "strata/base/host_tensor.h"

namespace strata::ir {

struct Type {
  DType dtype = DType::f32;
  Dims dims = {};

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t elements() const { return element_count(dims); }
  bool operator==(const Type&) const = default;
};

// "2x3xf32", for messages.
inline std::string text(const Type& type) { return shape_text(type.dtype, type.dims); }

// "tensor<2x3xf32>", as MLIR spells it.
std::string mlir_text(const Type& type);

}  // namespace strata::ir
