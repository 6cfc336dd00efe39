// Reading parts of device arrays through little host memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "strata/runtime/array.h"
#include "strata/sharding/box.h"

namespace strata::checkpoint {

// The most that is read or handed on at a time.
inline constexpr size_t kPieceBytes = size_t{4} << 20;

// Cuts `box` into boxes of at most `elements` elements which, one after another, are the box in
// row-major order.
void for_each_piece(const sharding::Box& box, int64_t elements,
                    const std::function<void(const sharding::Box&)>& piece);

// Use from one thread.
class BoxReader {
 public:
  // Copies `box` of the array (in coordinates of the whole), row-major, to `out`, which must be
  // exactly as large. Shards are put together, of replicas one is read. Beside `out` it holds at
  // most kPieceBytes, save on plug-ins that tile their memory: there the whole array is fetched.
  void read(const runtime::Array& array, const sharding::Box& box, std::span<std::byte> out);

 private:
  void read_part(const runtime::Array& array, size_t shard, const sharding::Box& part,
                 const sharding::Box& box, std::span<std::byte> out);

  std::vector<std::byte> staging_;
};

}  // namespace strata::checkpoint
