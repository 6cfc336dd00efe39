// Reading a named tree of device arrays as the unstacked tensors that files hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/checkpoint/box_reader.h"
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

// Cuts arrays into the unstacked tensors. What lies in one piece on its device comes straight from
// there; of the arrays that hold several layers and whose layer dim is not the first, one at a time
// is copied to the host (a bucket). Beside that it holds twice kPieceBytes. Slots and arrays must
// outlive it. Use from one thread.
class TreeReader {
 public:
  // Takes a piece of a tensor's row-major bytes, which is valid until it returns.
  using Sink = std::function<void(std::span<const std::byte>)>;

  // Throws invalid_argument (checkpoint.tree) naming the slot unless there is one array a slot, of
  // its element type and dims.
  TreeReader(std::span<const sharding::Slot> slots, const ArrayRefs& arrays);
  // Of row-major copies on the host, one a slot; they are used in place. Throws likewise.
  TreeReader(std::span<const sharding::Slot> slots, std::vector<std::span<const std::byte>> copies);

  // The unstacked tensors, slot by slot: reading in this order copies each bucket once.
  const std::vector<weights::TensorSpec>& specs() const { return specs_; }
  uint64_t bytes() const;
  // Reads the tensor `name` (one of specs()), piece by piece; every piece is of whole elements.
  void read(std::string_view name, const Sink& sink);

 private:
  struct Member {
    size_t slot = 0;
    int64_t layer = 0;
  };
  void list_members();
  // The whole array of a slot in host memory; empty where it is to be read from the device.
  std::span<const std::byte> held(size_t slot, bool contiguous);

  std::span<const sharding::Slot> slots_;
  ArrayRefs arrays_;                                // or
  std::vector<std::span<const std::byte>> copies_;  // of all
  std::vector<weights::TensorSpec> specs_;
  std::unordered_map<std::string, Member> members_;
  BoxReader reader_;
  size_t held_ = SIZE_MAX;  // the slot that `bucket_` is a copy of
  // As large as the largest bucket, and made once: buffers of many sizes that come and go between
  // long-lived ones leave holes, which cost as much again.
  HostTensor bucket_;
  std::vector<std::byte> piece_;
};

}  // namespace strata::checkpoint
