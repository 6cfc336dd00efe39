#include "strata/checkpoint/box_reader.h"

#include <algorithm>
#include <cstring>

#include "strata/base/error.h"
#include "strata/runtime/box_copy.h"

namespace strata::checkpoint {

using sharding::Box;

namespace {

// Shorter runs are fetched together with what lies around them.
constexpr size_t kDirectBytes = size_t{64} << 10;

bool seen_before(const std::vector<runtime::Shard>& shards, size_t s) {
  return std::any_of(shards.begin(), shards.begin() + static_cast<ptrdiff_t>(s),
                     [&](const runtime::Shard& earlier) { return earlier.box == shards[s].box; });
}

// TPUs keep arrays in tiles, so that raw bytes are not row-major there.
bool is_tiled(const runtime::Array& array) { return array.client()->platform_name() == "tpu"; }

}  // namespace

void for_each_piece(const Box& box, int64_t elements,
                    const std::function<void(const Box&)>& piece) {
  const int64_t all = box.elements();
  if (all == 0) return;
  size_t dim = 0;
  while (dim < box.size.size() && box.size[dim] == 1) ++dim;
  if (all <= elements || dim == box.size.size()) {
    piece(box);
    return;
  }
  const int64_t step = std::max<int64_t>(1, elements / (all / box.size[dim]));
  for (int64_t at = 0; at < box.size[dim]; at += step) {
    Box part = box;
    part.start[dim] += at;
    part.size[dim] = std::min(step, box.size[dim] - at);
    for_each_piece(part, elements, piece);
  }
}

void BoxReader::read(const runtime::Array& array, const Box& box, std::span<std::byte> out) {
  const std::vector<runtime::Shard>& shards = array.spec()->shards;
  invariant(out.size() == static_cast<size_t>(box.elements()) * size_of(array.dtype()),
            "checkpoint.box_room", "room for exactly the box");
  array.wait();
  if (is_tiled(array)) {
    const Box whole{Dims(array.dims().size(), 0), array.dims()};
    HostTensor copy = array.get();
    runtime::for_each_run(box, whole, box, size_of(array.dtype()),
                          [&](size_t from, size_t to, size_t n) {
                            std::memcpy(out.data() + to, copy.bytes() + from, n);
                          });
    return;
  }
  for (size_t s = 0; s < shards.size(); ++s) {
    auto part = sharding::intersect(box, shards[s].box);
    if (part && !seen_before(shards, s)) read_part(array, s, *part, box, out);
  }
}

void BoxReader::read_part(const runtime::Array& array, size_t shard, const Box& part,
                          const Box& box, std::span<std::byte> out) {
  const Box& held = array.spec()->shards[shard].box;
  const pjrt::Buffer& buffer = array.buffer(shard);
  const size_t element = size_of(array.dtype());
  const size_t size = static_cast<size_t>(held.elements()) * element;
  size_t begin = 0, end = 0;  // of the shard's bytes in staging_
  runtime::for_each_run(part, held, box, element, [&](size_t from, size_t to, size_t n) {
    if (n >= kDirectBytes) {
      buffer.copy_raw(out.subspan(to, n), from).wait();
      return;
    }
    // Runs come in the order of the shard's bytes and are shorter than the staging memory.
    if (from < begin || from + n > end) {
      begin = from;
      end = std::min(size, from + kPieceBytes);
      staging_.resize(std::max(staging_.size(), end - begin));
      buffer.copy_raw(std::span(staging_).first(end - begin), begin).wait();
    }
    std::memcpy(out.data() + to, staging_.data() + (from - begin), n);
  });
}

}  // namespace strata::checkpoint
