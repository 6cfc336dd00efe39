// Writing safetensors: the header first, then each tensor's bytes in order, so that no more than
// the piece in hand is ever in memory.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/file.h"
#include "strata/base/host_tensor.h"
#include "strata/weights/safetensors.h"

namespace strata::weights {

// A tensor to be written.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;

  uint64_t byte_size() const { return static_cast<uint64_t>(element_count(dims)) * size_of(dtype); }
};

// The order in which most tensors start at a multiple of 64 bytes, although the format allows no
// gaps: first those whose size is a multiple of 64, as given; then the rest, wider elements first.
std::vector<TensorSpec> aligned_order(std::vector<TensorSpec> specs);

// One safetensors file. The header is padded with spaces so that the data starts at a multiple of
// 64 bytes. Use from one thread. Until `finish` the file may vanish: the destructor removes it.
class SafetensorsWriter {
 public:
  // Writes the header for `specs` in this order. Throws invalid_argument on a name that is used
  // twice, is reserved or is not UTF-8, and as FileWriter.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> specs,
                    const Metadata& metadata = {});
  // Appends bytes of the current tensor, or of several: any cut will do.
  void write(std::span<const std::byte> bytes);
  // Makes the file durable. Throws invalid_argument unless exactly the declared bytes were written.
  void finish();
  // Bytes still to be written.
  uint64_t remaining() const { return remaining_; }

 private:
  std::filesystem::path path_;
  uint64_t remaining_ = 0;
  FileWriter file_;
};

// Writes tensors given as host memory, in aligned order, through a temporary name: afterwards
// `path` holds the old file or the whole new one.
struct NamedTensor {
  std::string name;
  const HostTensor* tensor = nullptr;
};
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata = {});

struct ShardOptions {
  uint64_t max_shard_bytes = 5'000'000'000;  // a larger tensor gets a shard of its own
  Metadata metadata = {{"format", "pt"}};
};

// The weights of a Hugging Face directory: model.safetensors, or shards
// model-00001-of-0000N.safetensors with model.safetensors.index.json. Call it inside
// write_directory_atomically. Use from one thread.
class ShardedWriter {
 public:
  // Throws as SafetensorsWriter.
  ShardedWriter(const std::filesystem::path& directory, std::vector<TensorSpec> specs,
                ShardOptions options = {});
  // The tensors in the order in which their bytes are expected.
  const std::vector<TensorSpec>& order() const { return specs_; }
  // Appends the next bytes: of the current tensor, or a piece of it.
  void write(std::span<const std::byte> bytes);
  // Closes the last shard and writes the index. Throws as SafetensorsWriter::finish.
  void finish();

 private:
  struct Shard {
    std::string file;
    size_t begin = 0, end = 0;  // range of specs_
  };
  void open_next();
  void skip_full_shards();
  void write_index() const;

  std::filesystem::path directory_;
  ShardOptions options_;
  std::vector<TensorSpec> specs_;
  std::vector<Shard> shards_;
  size_t next_ = 0;
  std::unique_ptr<SafetensorsWriter> current_;
};

}  // namespace strata::weights
