// Trees that hold the layers of a stack in one tensor, seen as the unstacked tensors that they are.
//
// Beside `STACK.3.LEAF` (one tensor a layer) other programs write
//   STACK.LEAF              all layers, a layer dim at some axis: [layers, …]
//   STACK.layer_S.LEAF      every C-th layer from the S-th on, for S = 0 … C-1: [repeats, …]
// and, where a loop over equal neighbours runs inside of one over cycles, two layer dims side by
// side: [repeats, inner, …]. Layers that have tensors of their own stay out of the count, so a
// prefix and a remainder may stand beside a stacked middle. They may be stacked as well, as
//   STACK.layers_B_E.…      layers B … E-1, in either of the forms above
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/weights/tensor_source.h"

namespace strata::weights {

// What a caller insists on; what is left out is as the tree has it.
struct TreeDemand {
  std::optional<bool> stacked = std::nullopt;
  // Of the layer dim. Negative counts from the end of the stacked tensor; more than a tensor's rank
  // means its end.
  std::optional<int64_t> axis = std::nullopt;
};

// The parts of "model.layers.3.mlp.up_proj.weight"; the first number in a name counts the layer.
struct LayerName {
  std::string stack;
  int64_t layer = 0;
  std::string leaf;
};
std::optional<LayerName> parse_layer_name(std::string_view name);

struct UnstackedTensor {
  TensorView view;
  // What is consumed when this one is, as the last layer of it; null otherwise.
  const TensorView* consumed = nullptr;
};

// The tensors of a stacked tree under their unstacked names. Refers to the tree, which must outlive
// it. A layer of an axis other than the first is not one piece (TensorView::run). Releasing a layer
// has an effect once the last one of its tensor is released.
class UnstackedSource final : public TensorSource {
 public:
  UnstackedSource(const TensorSource& tree, std::vector<UnstackedTensor> tensors);

  const std::filesystem::path& path() const override { return tree_.path(); }
  std::vector<std::filesystem::path> files() const override { return tree_.files(); }
  std::span<const TensorView> tensors() const override { return tensors_; }
  const TensorView* find(std::string_view name) const override;
  const Metadata& metadata() const override { return tree_.metadata(); }
  void release(const TensorView& tensor) const override;

 private:
  const TensorSource& tree_;
  std::vector<TensorView> tensors_;
  std::vector<const TensorView*> releases_;  // one a tensor
  std::unordered_map<std::string_view, size_t> by_name_;
};

// Sees `tree` as the unstacked tensors that are wanted; null when no wanted layer is in a stacked
// tensor. The layer axis is the demanded one, or found from the shapes; where several fit, what the
// metadata says (`param_scan_axis`) decides between them. The tensors are the truth: a flag
// `scan_layers` in the metadata or in config.json that contradicts them is warned of.
// Throws failed_precondition (weights.tree_form) when the tree is not as demanded; invalid_argument
// or failed_precondition (weights.layer_axis: none fits, several do; weights.layer_cycle: the
// layers are no multiple of the cycle). Each says what is there and what to do.
std::unique_ptr<TensorSource> unstack(const TensorSource& tree, std::span<const Wanted> wanted,
                                      const TreeDemand& demand = {});

}  // namespace strata::weights
