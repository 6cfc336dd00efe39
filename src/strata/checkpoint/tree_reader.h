// Reading a named tree of device arrays as the unstacked tensors that files hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/runtime/array.h"
#include "strata/runtime/parameter_table.h"
#include "strata/sharding/manifest.h"
#include "strata/sharding/mesh.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {

// One array a slot; the arrays stay whose they were.
using ArrayRefs = std::vector<const runtime::Array*>;
ArrayRefs refs_of(const std::vector<runtime::Array>& arrays);
ArrayRefs refs_of(const runtime::ParameterTable& table);

// The unstacked names and dims that a slot holds, in the order of its layer dim.
std::vector<weights::Wanted> members_of(const sharding::Slot& slot);

// Which part of a slot layer `k` of its layer dim is; all of it when it has none.
sharding::Box layer_box(const sharding::Slot& slot, int64_t k);

// How each slot's array lies over the mesh; `dtype` replaces the slots' own. Throws as
// sharding::check_layout.
std::vector<runtime::SpecPtr> specs_of(std::span<const sharding::Slot> slots,
                                       const sharding::Mesh& mesh,
                                       std::optional<DType> dtype = std::nullopt);

// Copies one array at a time to the host and cuts it into layers: it holds at most one array, and
// one layer of it where the layer dim is not the first. Slots and arrays must outlive it. Use from
// one thread.
class TreeReader {
 public:
  // Throws invalid_argument (checkpoint.tree) naming the slot unless there is one array a slot, of
  // its element type and dims.
  TreeReader(std::span<const sharding::Slot> slots, const ArrayRefs& arrays);

  // The unstacked tensors, slot by slot: reading in this order copies each array once.
  const std::vector<weights::TensorSpec>& specs() const { return specs_; }
  uint64_t bytes() const;
  // Row-major bytes of the tensor `name` (one of specs()), valid until the next call.
  std::span<const std::byte> read(std::string_view name);

 private:
  struct Member {
    size_t slot = 0;
    int64_t layer = 0;
  };
  std::span<const sharding::Slot> slots_;
  ArrayRefs arrays_;
  std::vector<weights::TensorSpec> specs_;
  std::unordered_map<std::string, Member> members_;
  size_t held_ = SIZE_MAX;  // the slot that `whole_` is a copy of
  // As large as the largest array, and made once: buffers of many sizes that come and go between
  // long-lived ones leave holes, which cost as much again.
  HostTensor whole_;
  HostTensor part_;
};

}  // namespace strata::checkpoint
