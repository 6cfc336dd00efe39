#include "strata/runtime/array_builder.h"

#include <utility>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/runtime/box_copy.h"

namespace strata::runtime {

using sharding::Box;

ArrayBuilder::ArrayBuilder(ClientPtr client, SpecPtr spec) : spec_(std::move(spec)) {
  for (const Shard& shard : spec_->shards) {
    pjrt::ChunkedTransfer transfer(client, client->device(shard.device_id),
                                   {{spec_->dtype, shard.box.size}});
    pjrt::Buffer buffer = transfer.take(0);
    size_t bytes = static_cast<size_t>(shard.box.elements()) * size_of(spec_->dtype);
    if (bytes == 0) transfer.send(0, {}, 0, true).wait();
    parts_.push_back({std::move(transfer), std::move(buffer), bytes});
  }
}

void ArrayBuilder::check(const Box& box, size_t bytes) const {
  bool inside = box.start.size() == spec_->dims.size() && box.size.size() == spec_->dims.size();
  for (size_t i = 0; inside && i < spec_->dims.size(); ++i) {
    inside = box.start[i] >= 0 && box.size[i] >= 0 && box.start[i] <= spec_->dims[i] &&
             box.size[i] <= spec_->dims[i] - box.start[i];
  }
  if (!inside) {
    fail({.id = "runtime.box_range",
          .where = "array under construction " + spec_->text(),
          .expected = "a box inside " + list_text(spec_->dims),
          .got = "start " + list_text(box.start) + ", size " + list_text(box.size),
          .code = Code::out_of_range});
  }
  size_t wanted = static_cast<size_t>(box.elements()) * size_of(spec_->dtype);
  if (bytes != wanted) {
    fail({.id = "runtime.box_size",
          .where = "box of " + list_text(box.size) + " of array " + spec_->text(),
          .expected = std::to_string(wanted) + " bytes",
          .got = std::to_string(bytes)});
  }
}

void ArrayBuilder::write(const Box& box, std::span<const std::byte> bytes) {
  check(box, bytes.size());
  std::vector<pjrt::Event> events;
  for (size_t s = 0; s < parts_.size(); ++s) {
    Part& part = parts_[s];
    const Box& shard = spec_->shards[s].box;
    std::optional<Box> common = sharding::intersect(box, shard);
    if (!common) continue;
    size_t size = static_cast<size_t>(common->elements()) * size_of(spec_->dtype);
    if (size > part.missing) {
      fail({.id = "runtime.box_again",
            .where = "array under construction " + spec_->text(),
            .expected = "every element written once",
            .got = "a box at " + list_text(box.start) + " beyond what is missing",
            .code = Code::failed_precondition});
    }
    for_each_run(*common, box, shard, size_of(spec_->dtype), [&](size_t from, size_t to, size_t n) {
      part.missing -= n;
      events.push_back(part.transfer.send(0, bytes.subspan(from, n), to, part.missing == 0));
    });
  }
  for (const pjrt::Event& event : events) event.wait();
}

Array ArrayBuilder::finish() {
  size_t missing = 0;
  for (const Part& part : parts_) missing += part.missing;
  if (missing > 0) {
    fail({.id = "runtime.array_incomplete",
          .where = "array under construction " + spec_->text(),
          .expected = "every element written",
          .got = std::to_string(missing) + " bytes missing",
          .code = Code::failed_precondition});
  }
  std::vector<pjrt::Buffer> buffers;
  for (Part& part : parts_) buffers.push_back(std::move(part.buffer));
  parts_.clear();
  return Array(spec_, std::move(buffers));
}

}  // namespace strata::runtime
