// What every weights file looks like from outside: named tensors whose bytes lie in a read-only
// map. A single safetensors file and a Hugging Face directory of shards both are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/host_tensor.h"

namespace strata::weights {

// `__metadata__` of a file.
using Metadata = std::map<std::string, std::string>;

// One tensor in a mapped file. `bytes` is row-major, little-endian and may lie at any address: the
// format aligns nothing, so read elements through `to_host`, `contiguous` or memcpy.
struct TensorView {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;
  std::span<const std::byte> bytes;
  uint64_t offset = 0;  // of the first byte within its file
  size_t file = 0;      // index into TensorSource::files()
  // One layer of a stacked tensor need not be one piece: it is runs of `run` bytes whose beginnings
  // are `stride` bytes apart, from the beginning of `bytes` to its end. 0 = one piece.
  size_t run = 0, stride = 0;

  uint64_t byte_size() const { return static_cast<uint64_t>(element_count(dims)) * size_of(dtype); }
};

// A read-only set of tensors with unique names. Views stay valid while the source lives. Opening is
// the only step that can fail on bad bytes; afterwards every method is thread-safe.
class TensorSource {
 public:
  TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;
  virtual ~TensorSource() = default;

  // The file or directory, as it was given.
  virtual const std::filesystem::path& path() const = 0;
  // The safetensors files, in the order that TensorView::file counts.
  virtual std::vector<std::filesystem::path> files() const = 0;
  // File by file, within a file by offset.
  virtual std::span<const TensorView> tensors() const = 0;
  // Null when there is no such tensor.
  virtual const TensorView* find(std::string_view name) const = 0;
  // Of the first file; what it says of the tensors is advice.
  virtual const Metadata& metadata() const;
  // Drops the resident pages of a tensor that has been consumed; reading it again still works.
  virtual void release(const TensorView& tensor) const = 0;

  // Throws not_found naming the source and the nearest name.
  const TensorView& get(std::string_view name) const;
  uint64_t total_bytes() const;
};

// Opens a safetensors file, or a directory by the rules of hf_directory.h.
std::unique_ptr<TensorSource> open_source(const std::filesystem::path& path);

// The tensor's bytes in one piece: those of the map, or gathered in `storage`, which grows as
// needed and is valid until its next use.
std::span<const std::byte> contiguous(const TensorView& tensor, std::vector<std::byte>& storage);

// An aligned copy of the tensor. Throws resource_exhausted when the memory cannot be had.
HostTensor to_host(const TensorView& tensor);

// What a model wants to find. Without `dtype` any element type will do.
struct Wanted {
  std::string name;
  Dims dims;
  std::optional<DType> dtype = std::nullopt;
};

// Strict total comparison of `source` with what is wanted: every wanted tensor is there with these
// dims (and dtype), and nothing else is, save names that match a pattern of `ignorable`
// ("lm_head.weight", "*.rotary_emb.inv_freq"; `*` stands for any run of characters). Throws one
// invalid_argument that lists all missing, extra, wrong-shape and wrong-dtype names: the first 20
// of each, with counts.
void check_total(const TensorSource& source, std::span<const Wanted> wanted,
                 std::span<const std::string> ignorable = {});

// Whether `name` matches `pattern`, in which `*` stands for any run of characters.
bool matches(std::string_view name, std::string_view pattern);

}  // namespace strata::weights
