#include "strata/runtime/array.h"

#include <cstring>
#include <utility>

#include "strata/base/error.h"
#include "strata/runtime/box_copy.h"

namespace strata::runtime {

using sharding::Box;

Array::Array(SpecPtr spec, std::vector<pjrt::Buffer> buffers) : spec_(std::move(spec)) {
  if (buffers.empty() || buffers.size() != spec_->shards.size()) {
    fail({.id = "runtime.shard_count",
          .where = "array " + spec_->text(),
          .expected = std::to_string(spec_->shards.size()) + " buffers",
          .got = std::to_string(buffers.size())});
  }
  first_ = std::move(buffers[0]);
  for (size_t i = 1; i < buffers.size(); ++i) rest_.push_back(std::move(buffers[i]));
  check_layout();
}

Array::Array(SpecPtr spec, pjrt::Buffer buffer)
    : spec_(std::move(spec)), first_(std::move(buffer)) {
  check_layout();
}

Array::Array(SpecPtr spec, pjrt::Buffer first, std::vector<pjrt::Buffer> rest, Unchecked)
    : spec_(std::move(spec)), first_(std::move(first)), rest_(std::move(rest)) {}

void Array::check_layout() const {
  for (size_t s = 0; s < spec_->shards.size(); ++s) {
    const Shard& shard = spec_->shards[s];
    const pjrt::Buffer& b = buffer(s);
    const DType type = b.dtype();
    const Dims dims = b.dims();
    const int device = b.device_id();
    if (type == spec_->dtype && dims == shard.box.size && device == shard.device_id) continue;
    auto text = [](DType dtype, const Dims& size, int id) {
      return shape_text(dtype, size) + " on device " + std::to_string(id);
    };
    fail({.id = "runtime.array_layout",
          .where = "array " + spec_->text(),
          .expected = text(spec_->dtype, shard.box.size, shard.device_id) + ", as planned",
          .got = text(type, dims, device) + " in the plug-in",
          .code = Code::internal});
  }
}

Array::Array(Array&& other) noexcept
    : spec_(std::move(other.spec_)),
      first_(std::move(other.first_)),
      rest_(std::move(other.rest_)),
      view_(std::exchange(other.view_, false)) {
  other.rest_.clear();
}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  spec_ = std::move(other.spec_);
  // The old buffer goes at once and not with `other`.
  first_ = pjrt::Buffer();
  first_ = std::move(other.first_);
  rest_ = std::move(other.rest_);
  other.rest_.clear();
  view_ = std::exchange(other.view_, false);
  return *this;
}

Array Array::put(const ClientPtr& client, const HostTensor& host, const sharding::Mesh& mesh) {
  sharding::ParamType type = sharding::plain_type(host.dtype(), host.dims());
  return put(client, ArraySpec::sharded(type, mesh, "array"), {host.bytes(), host.byte_size()});
}

PendingPut Array::start_put(const ClientPtr& client, const SpecPtr& spec,
                            std::span<const std::byte> bytes) {
  if (bytes.size() != spec->bytes()) {
    fail({.id = "runtime.put_size",
          .where = "array " + spec->text(),
          .expected = std::to_string(spec->bytes()) + " bytes",
          .got = std::to_string(bytes.size())});
  }
  const Dims strides = byte_strides(spec->dims, size_of(spec->dtype));
  std::vector<pjrt::Buffer> buffers;
  std::vector<pjrt::Event> events;
  for (const Shard& shard : spec->shards) {
    const Box& box = shard.box;
    size_t begin = 0, size = 0;
    bool dense = is_contiguous(spec->dims, box);
    if (box.elements() > 0) {
      begin = static_cast<size_t>(first_element(spec->dims, box)) * size_of(spec->dtype);
      size =
          dense ? static_cast<size_t>(box.elements()) * size_of(spec->dtype) : bytes.size() - begin;
    }
    pjrt::HostTransfer transfer = pjrt::Buffer::from_host(
        client, client->device(shard.device_id), spec->dtype, box.size, bytes.subspan(begin, size),
        pjrt::HostUse::until_transfer_completes,
        dense ? std::span<const int64_t>() : std::span<const int64_t>(strides));
    buffers.push_back(std::move(transfer.buffer));
    events.push_back(std::move(transfer.host_free));
  }
  return PendingPut(Array(spec, std::move(buffers)), std::move(events));
}

Array Array::put(const ClientPtr& client, const SpecPtr& spec, std::span<const std::byte> bytes) {
  return start_put(client, spec, bytes).finish();
}

Array Array::put(const ClientPtr& client, const HostTensor& host, int device_id) {
  return put(client, ArraySpec::single(host.dtype(), host.dims(), device_id),
             {host.bytes(), host.byte_size()});
}

Array Array::view(const ClientPtr& client, const SpecPtr& spec, void* memory,
                  std::function<void()> on_delete) {
  if (spec->shards.size() != 1) {
    fail({.id = "runtime.view_devices",
          .where = "view of " + spec->text(),
          .expected = "an array on one device",
          .got = std::to_string(spec->shards.size()) + " devices"});
  }
  Array array(spec, pjrt::Buffer::view(client, client->device(spec->shards[0].device_id),
                                       spec->dtype, spec->dims, memory, std::move(on_delete)));
  array.view_ = true;
  return array;
}

void Array::check() const {
  if (!consumed()) return;
  fail({.id = "runtime.array_consumed",
        .where = "array",
        .expected = "an array that holds device memory",
        .got = "a consumed one (donated to a program, moved from, or never filled)",
        .cure = "Use the program's result in its place, or clone() before donating",
        .code = Code::failed_precondition});
}

DType Array::dtype() const {
  check();
  return spec_->dtype;
}

const Dims& Array::dims() const {
  check();
  return spec_->dims;
}

const pjrt::Buffer& Array::buffer(size_t shard) const {
  check();
  invariant(shard < shard_count(), "runtime.shard_index", "a shard index below the shard count");
  return shard == 0 ? first_ : rest_[shard - 1];
}

const ClientPtr& Array::client() const {
  check();
  return first_.client();
}

void Array::wait() const {
  check();
  first_.ready().wait();
  for (const pjrt::Buffer& b : rest_) b.ready().wait();
}

HostTensor Array::get() const {
  check();
  HostTensor host(spec_->dtype, spec_->dims);
  get({host.bytes(), host.byte_size()});
  return host;
}

void Array::get(std::span<std::byte> out) const {
  check();
  if (out.size() != spec_->bytes()) {
    fail({.id = "runtime.get_size",
          .where = "array " + spec_->text(),
          .expected = std::to_string(spec_->bytes()) + " bytes of room",
          .got = std::to_string(out.size())});
  }
  const Box whole{.start = Dims(spec_->dims.size(), 0), .size = spec_->dims};
  std::vector<std::byte> part;
  for (size_t s = 0; s < spec_->shards.size(); ++s) {
    const Box& box = spec_->shards[s].box;
    bool seen = false;
    for (size_t earlier = 0; earlier < s; ++earlier) {
      seen = seen || spec_->shards[earlier].box == box;
    }
    if (seen) continue;
    size_t bytes = static_cast<size_t>(box.elements()) * size_of(spec_->dtype);
    if (is_contiguous(spec_->dims, box)) {
      size_t begin =
          bytes == 0 ? 0
                     : static_cast<size_t>(first_element(spec_->dims, box)) * size_of(spec_->dtype);
      buffer(s).to_host(out.subspan(begin, bytes)).wait();
      continue;
    }
    part.resize(bytes);
    buffer(s).to_host(part).wait();
    for_each_run(box, box, whole, size_of(spec_->dtype), [&](size_t from, size_t to, size_t n) {
      std::memcpy(out.data() + to, part.data() + from, n);
    });
  }
}

Array Array::clone() const {
  check();
  std::vector<pjrt::Buffer> copies;
  for (size_t s = 0; s < shard_count(); ++s) copies.push_back(buffer(s).clone());
  return Array(spec_, std::move(copies));
}

void Array::reset() {
  spec_.reset();
  first_ = pjrt::Buffer();
  rest_.clear();
  view_ = false;
}

PendingPut::PendingPut(Array array, std::vector<pjrt::Event> host_free)
    : array_(std::move(array)), host_free_(std::move(host_free)) {}

PendingPut::~PendingPut() {
  for (const pjrt::Event& event : host_free_) {
    try {
      event.wait();
    } catch (const Error&) {
      // The failed array is being dropped; its reader, if any, gets the error from the buffer.
    }
  }
}

Array PendingPut::finish() {
  for (const pjrt::Event& event : host_free_) event.wait();
  host_free_.clear();
  return std::move(array_);
}

}  // namespace strata::runtime
