// The GGUF format, versions 2 and 3, little-endian: magic, counts, typed key-value metadata, tensor
// infos, then the tensors' blocks at aligned offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/host_tensor.h"
#include "strata/weights/ggml_types.h"

namespace strata::weights {

enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
std::string_view name_of(GgufType type);

// One metadata value: a validated view into the file. Scalars are their bytes, strings their text,
// arrays their elements back to back in the file's own encoding.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  // of an array
  uint64_t count = 1;               // elements of an array
  std::string_view raw;

  // For scalars of integer, float and boolean type. The conversion is exact or the result is
  // false / the nearest double.
  bool to_int(int64_t& out) const;
  bool to_double(double& out) const;
  // For arrays: strings as views into the file; integers (or booleans) widened.
  std::vector<std::string_view> strings() const;
  std::vector<int64_t> ints() const;
  std::vector<double> doubles() const;
};

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;
  Dims dims;  // outermost first, the reverse of the file's order
  std::span<const std::byte> bytes;
  uint64_t offset = 0;  // within the file

  // Elements of one row (the innermost dim; 1 for rank 0) and the bytes it takes.
  int64_t row_elements() const { return dims.empty() ? 1 : dims.back(); }
  size_t row_bytes() const {
    return static_cast<size_t>(row_elements()) / type->block_elements * type->block_bytes;
  }
};

struct GgufIndex {
  uint32_t version = 0;
  uint64_t alignment = 32;
  std::vector<std::pair<std::string, GgufValue>> metadata;  // as in the file
  std::vector<GgufTensor> tensors;
};

// Validates a whole file image: every length, offset and count against the file's size; keys and
// tensor names unique; tensors aligned, whole and not overlapping. `where` (the path) begins each
// error. Throws data_loss, or unimplemented (a big-endian file, version 1, a tensor type without a
// known size). Memory stays proportional to the metadata's size.
GgufIndex parse_gguf(std::span<const std::byte> file, const std::string& where);

// A memory-mapped GGUF file. Thread-safe after construction.
class GgufFile {
 public:
  // Throws as MappedFile and parse_gguf.
  explicit GgufFile(const std::filesystem::path& path);
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::filesystem::path& path() const { return map_.path(); }
  const GgufIndex& index() const { return index_; }
  std::span<const GgufTensor> tensors() const { return index_.tensors; }

  // Null when absent.
  const GgufTensor* find_tensor(std::string_view name) const;
  const GgufValue* find(std::string_view key) const;

  // Typed metadata. Throws not_found (without fallback) when the key is absent and
  // invalid_argument when it has another type, naming file and key.
  int64_t get_int(const std::string& key) const;
  int64_t get_int_or(const std::string& key, int64_t fallback) const;
  double get_double(const std::string& key) const;
  double get_double_or(const std::string& key, double fallback) const;
  std::string get_string(const std::string& key) const;
  std::string get_string_or(const std::string& key, const std::string& fallback) const;
  bool get_bool_or(const std::string& key, bool fallback) const;
  std::vector<std::string_view> get_strings(const std::string& key) const;
  std::vector<int64_t> get_ints(const std::string& key) const;

  // Drops the resident pages of a tensor that has been consumed.
  void release(const GgufTensor& tensor) const;

 private:
  const GgufValue& require_value(const std::string& key) const;
  [[noreturn]] void fail_type(const std::string& key, const GgufValue& value,
                              const char* expected) const;

  MappedFile map_;
  GgufIndex index_;
  std::unordered_map<std::string_view, size_t> keys_, names_;
};

}  // namespace strata::weights
