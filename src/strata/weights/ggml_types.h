// Block formats of GGML tensors and their exact decoding to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace strata::weights {

// A tensor type of GGUF: `block_elements` consecutive elements of a row are stored in
// `block_bytes` bytes.
struct GgmlType {
  uint32_t id = 0;
  std::string_view name;  // "Q4_K"
  uint32_t block_elements = 0;
  uint32_t block_bytes = 0;
};

// The type with this number, or null when no type with a known size has it. Rows live forever.
const GgmlType* ggml_type(uint32_t id);

// Whether `dequantise` serves the type: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q6_K.
bool can_dequantise(const GgmlType& type);

// Decodes whole blocks, bit for bit as PyPI `gguf` 0.19 does: scales are widened to f32, each
// product and sum is rounded to f32 on its own. Throws unimplemented, naming `where` and the type,
// on a type that is not served. REQUIRES out.size() elements = whole blocks = blocks.size() bytes
// (else internal). Thread-safe.
void dequantise(const GgmlType& type, std::span<const std::byte> blocks, std::span<float> out,
                const std::string& where);

}  // namespace strata::weights
