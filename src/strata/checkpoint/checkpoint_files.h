// The tensors of a checkpoint: parameters and optimiser slots as one source.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "strata/checkpoint/checkpoint_index.h"
#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {

// Where the optimiser slots lie in a checkpoint.
inline constexpr const char* kSlotsDirectory = "optimizer";

// A mapped checkpoint. The index and the headers of the files are compared on opening.
class CheckpointFiles final : public weights::TensorSource {
 public:
  // Throws as read_index and weights::HfDirectory, and data_loss (checkpoint.contradiction) naming
  // the first tensor about which the index and the files disagree.
  explicit CheckpointFiles(const std::filesystem::path& checkpoint);

  const CheckpointIndex& index() const { return index_; }
  // Compares a tensor's bytes with the index. Throws data_loss (checkpoint.hash) naming it.
  void verify(const weights::TensorView& tensor) const;
  // Compares all tensors and copied files with the index. Throws as the other, and as read_file.
  void verify() const;

  const std::filesystem::path& path() const override { return path_; }
  std::vector<std::filesystem::path> files() const override;
  std::span<const weights::TensorView> tensors() const override { return tensors_; }
  const weights::TensorView* find(std::string_view name) const override;
  void release(const weights::TensorView& tensor) const override;

 private:
  struct Part {
    std::unique_ptr<TensorSource> source;
    size_t first_file = 0;
  };
  void add(std::unique_ptr<TensorSource> source);
  void compare() const;

  std::filesystem::path path_;
  CheckpointIndex index_;
  std::vector<Part> parts_;
  std::vector<weights::TensorView> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::unordered_map<std::string_view, const TensorEntry*> entries_;
};

}  // namespace strata::checkpoint
