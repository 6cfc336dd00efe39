// The safetensors format: 8 bytes of little-endian header length, a JSON header, then the tensors'
// bytes without gaps.
//   {"__metadata__": {"key": "text"}, "name": {"dtype": "BF16", "shape": [2, 3],
//    "data_offsets": [begin, end]}, …}          offsets count from the end of the header
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/base/file.h"
#include "strata/weights/tensor_source.h"

namespace strata::weights {

struct SafetensorsIndex {
  Metadata metadata;
  std::vector<TensorView> tensors;  // by offset; empty ones stand where the header puts them
};

// Validates a whole file image and lists its tensors as views into `file`. Every byte behind the
// header must belong to exactly one tensor. `where` (the path) begins each error, which names the
// tensor where there is one. Throws data_loss on any breach of the format and unimplemented on an
// element type that is lawful but not served (F4, F6_E2M3, F6_E3M2, C64, the FNUZ kinds).
// Memory stays proportional to the header's size.
SafetensorsIndex parse_safetensors(std::span<const std::byte> file, const std::string& where);

// Spelling in the header: "F32", "BF16", "F8_E4M3", "BOOL".
std::string_view safetensors_name(DType dtype);

// A memory-mapped safetensors file; tensors are views into the map.
class SafetensorsFile final : public TensorSource {
 public:
  // Throws as MappedFile and parse_safetensors.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const override { return map_.path(); }
  std::vector<std::filesystem::path> files() const override { return {map_.path()}; }
  std::span<const TensorView> tensors() const override { return index_.tensors; }
  const TensorView* find(std::string_view name) const override;
  const Metadata& metadata() const override { return index_.metadata; }
  void release(const TensorView& tensor) const override;

 private:
  MappedFile map_;
  SafetensorsIndex index_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace strata::weights
