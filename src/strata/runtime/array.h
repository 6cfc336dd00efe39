// Array: a tensor in device memory, over one or more devices.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "strata/base/host_tensor.h"
#include "strata/pjrt/buffer.h"
#include "strata/runtime/array_spec.h"

namespace strata::runtime {

using ClientPtr = std::shared_ptr<const pjrt::Client>;

class PendingPut;

// Move-only owner of one buffer a shard. An Array that was moved from, donated to a program or
// never filled is consumed: using it throws failed_precondition "runtime.array_consumed". Reading
// is thread-safe; donating, assigning and destroying need exclusive use.
class Array {
 public:
  Array() = default;
  // Adopts buffers, one a shard of `spec`. Throws "runtime.shard_count", or internal
  // "runtime.array_layout" when what the plug-in says of a buffer (device, element type, dims) is
  // not what `spec` says of the shard.
  Array(SpecPtr spec, std::vector<pjrt::Buffer> buffers);
  // The same for one device, without a list.
  Array(SpecPtr spec, pjrt::Buffer buffer);
  // The same without looking at the buffers: for Executor, which looks at a program's first
  // results.
  class Unchecked {
    friend class Executor;
    Unchecked() = default;
  };
  Array(SpecPtr spec, pjrt::Buffer first, std::vector<pjrt::Buffer> rest, Unchecked);
  Array(Array&& other) noexcept;
  Array& operator=(Array&& other) noexcept;
  ~Array() = default;

  // Copies row-major bytes of the whole array to the devices of `spec`, straight from where they
  // lie (a mapped file, a HostTensor): each shard is read once and nothing is copied on the host.
  // Returns when the bytes may be changed. Throws invalid_argument "runtime.put_size".
  static Array put(const ClientPtr& client, const SpecPtr& spec, std::span<const std::byte> bytes);
  static Array put(const ClientPtr& client, const HostTensor& host, int device_id = 0);
  // The whole of it on every device of a mesh.
  static Array put(const ClientPtr& client, const HostTensor& host, const sharding::Mesh& mesh);
  // The same without waiting: the bytes must live unchanged until PendingPut::finish.
  static PendingPut start_put(const ClientPtr& client, const SpecPtr& spec,
                              std::span<const std::byte> bytes);
  // An array that reads `memory` in place (64-byte aligned, row-major, on the spec's only device)
  // until `on_delete` is called. It cannot be donated. Throws "runtime.view_devices" for a spec of
  // several devices, and as pjrt::Buffer::view.
  static Array view(const ClientPtr& client, const SpecPtr& spec, void* memory,
                    std::function<void()> on_delete);

  bool consumed() const { return spec_ == nullptr; }
  bool is_view() const { return view_; }
  const SpecPtr& spec() const { return spec_; }
  DType dtype() const;
  const Dims& dims() const;
  size_t shard_count() const { return consumed() ? 0 : 1 + rest_.size(); }
  const pjrt::Buffer& buffer(size_t shard) const;
  const ClientPtr& client() const;

  // Blocks until the contents are there. Throws what failed while producing them.
  void wait() const;
  // The whole array on the host; shards are put together, replicas are read once.
  HostTensor get() const;
  // The same into `out`, which must be exactly as large ("runtime.get_size").
  void get(std::span<std::byte> out) const;
  // A copy in memory of its own on the same devices.
  Array clone() const;
  // Frees the device memory now; the array is consumed.
  void reset();

 private:
  friend class Executor;
  void check() const;
  void check_layout() const;

  SpecPtr spec_;
  // The first buffer apart, so that an array of one device allocates nothing.
  pjrt::Buffer first_;
  std::vector<pjrt::Buffer> rest_;
  bool view_ = false;
  bool donating_ = false;  // marked during Executor::run, to find an array given twice
};

// An Array whose bytes are still being read from the host. Destroying it waits too.
class PendingPut {
 public:
  PendingPut(Array array, std::vector<pjrt::Event> host_free);
  PendingPut(PendingPut&&) noexcept = default;
  PendingPut& operator=(PendingPut&&) = delete;
  ~PendingPut();
  // Waits until the host bytes may be changed, and hands the array out.
  Array finish();

 private:
  Array array_;
  std::vector<pjrt::Event> host_free_;
};

}  // namespace strata::runtime
