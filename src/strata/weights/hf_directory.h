// A model directory in Hugging Face's layout: config.json, tokenizer files, and the weights either
// in model.safetensors or in the shards that model.safetensors.index.json names.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/weights/safetensors.h"
#include "strata/weights/tensor_source.h"

namespace strata::weights {

// The weights of a model directory. The rules are strict, so that no tensor is ever left out or
// taken from the wrong file:
//   - model.safetensors beside an index is refused: the user removes the stale one;
//   - shard names are plain file names;
//   - every shard exists; every tensor of the index is in the shard it names; every tensor of those
//     shards is in the index;
//   - other *.safetensors files are ignored, with one warning that names them.
class HfDirectory final : public TensorSource {
 public:
  // Throws not_found (no directory, no weights, a missing shard), data_loss (a damaged file, an
  // index that contradicts its shards) or invalid_argument (both forms, a path as shard name).
  explicit HfDirectory(const std::filesystem::path& path);

  const std::filesystem::path& path() const override { return path_; }
  std::vector<std::filesystem::path> files() const override;
  std::span<const TensorView> tensors() const override { return tensors_; }
  const TensorView* find(std::string_view name) const override;
  const Metadata& metadata() const override { return shards_.front()->metadata(); }
  void release(const TensorView& tensor) const override;

 private:
  std::filesystem::path path_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// The files beside the weights; the directory need not hold weights.
std::filesystem::path config_path(const std::filesystem::path& directory);
std::filesystem::path generation_config_path(const std::filesystem::path& directory);

}  // namespace strata::weights
