// Putting an Array together from pieces, without a full copy of it on the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "strata/pjrt/transfer.h"
#include "strata/runtime/array.h"

namespace strata::runtime {

// Allocates the device memory of one array and fills it box by box: a stacked parameter takes one
// layer after another straight from the file. Every element is written exactly once; boxes may come
// in any order and from one thread at a time. Move-only.
class ArrayBuilder {
 public:
  // Throws as pjrt::ChunkedTransfer.
  ArrayBuilder(ClientPtr client, SpecPtr spec);

  // Copies row-major bytes of `box` (in the coordinates of the whole array) to every shard that
  // holds part of it; returns when `bytes` may be changed. Throws out_of_range "runtime.box_range"
  // (a box that is not inside the array), invalid_argument "runtime.box_size", or
  // failed_precondition "runtime.box_again" when more is written than fits.
  void write(const sharding::Box& box, std::span<const std::byte> bytes);

  // The finished array; the builder is empty afterwards. Throws failed_precondition
  // "runtime.array_incomplete" telling how many bytes are missing.
  Array finish();

 private:
  struct Part {
    pjrt::ChunkedTransfer transfer;
    pjrt::Buffer buffer;
    size_t missing = 0;  // bytes not written yet
  };
  void check(const sharding::Box& box, size_t bytes) const;

  SpecPtr spec_;
  std::vector<Part> parts_;  // one a shard
};

}  // namespace strata::runtime
