// What the layers of one stack have in common: parameters and buffers with one slot for all.
#pragma once

#include <unordered_map>
#include <vector>

#include "strata/nn/module.h"

namespace strata::nn {

class LayerStack;

// Two things are shared by the layers of a stack, and are never stacked:
//   - buffers declared Share::shared, one slot for each name and type, under the first layer's
//   name;
//   - a parameter of one layer of which every other layer holds a second name in the same place.
class Sharing {
 public:
  explicit Sharing(const LayerStack& stack);

  // Who holds the values of `param`: itself, or the owner of what it shares.
  const Param& owner_of(const Param& param) const;
  // Owners of what the layers share.
  const std::vector<const Param*>& owners() const { return owners_; }
  bool is_owner(const Param& param) const;
  // The shared buffers of all layers and their owners.
  const std::unordered_map<const Param*, const Param*>& buffers() const { return owner_of_; }

 private:
  void share_buffers(const LayerStack& stack);
  void share_parameters(const LayerStack& stack);

  std::vector<const Param*> owners_;
  std::unordered_map<const Param*, const Param*> owner_of_;  // of shared buffers
};

}  // namespace strata::nn
