// Device memory of one device: buffers, and the ways bytes get into and out of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "strata/base/host_tensor.h"
#include "strata/pjrt/client.h"
#include "strata/pjrt/event.h"

struct PJRT_Buffer;

namespace strata::pjrt {

// What the plug-in may do with the caller's bytes.
enum class HostUse {
  copy_during_call,          // read before the call returns
  until_transfer_completes,  // read until `host_free` is ready
  zero_copy,                 // may be the buffer's storage for as long as it lives, never written
  mutable_zero_copy,         // may be the storage and be written; elsewhere as the second
};

struct HostTransfer;

// Move-only owner of a PJRT_Buffer; keeps its client alive. Reading is thread-safe; execution with
// donation and `free_memory` need exclusive use. A moved-from or default buffer is empty: every
// call but `empty` then throws "pjrt.buffer_empty".
class Buffer {
 public:
  Buffer() = default;
  // Takes ownership of `handle`, which belongs to `client`.
  Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* handle);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  // Copies (or, by `use`, adopts) host bytes onto a device. `bytes` are row-major and exactly the
  // shape's size, or laid out by `byte_strides` (one a dim, none negative; the bytes then reach at
  // least to the last element). CPU plug-ins adopt only bytes aligned to 64 and silently copy
  // others. Throws invalid_argument "pjrt.host_size", or "pjrt.call".
  static HostTransfer from_host(const std::shared_ptr<const Client>& client, const Device& device,
                                DType dtype, std::span<const int64_t> dims,
                                std::span<const std::byte> bytes,
                                HostUse use = HostUse::copy_during_call,
                                std::span<const int64_t> byte_strides = {});

  // A buffer whose storage is `memory`, on the device, row-major, owned by the caller until
  // `on_delete` is called (from any thread, exactly once unless this throws). For data that is
  // read: a donated view is never reused. Throws invalid_argument "pjrt.view_alignment" unless
  // `memory` is aligned to 64 bytes, or "pjrt.call".
  static Buffer view(const std::shared_ptr<const Client>& client, const Device& device, DType dtype,
                     std::span<const int64_t> dims, void* memory, std::function<void()> on_delete);

  bool empty() const { return handle_ == nullptr; }
  PJRT_Buffer* handle() const { return handle_; }
  const std::shared_ptr<const Client>& client() const { return client_; }

  DType dtype() const;
  Dims dims() const;
  int device_id() const;
  size_t bytes_on_device() const;
  // Whether the memory was given away (donated) or freed.
  bool deleted() const;
  // Gives the device memory back now. The buffer stays, deleted.
  void free_memory();
  // Ready when the contents are; fails with the error of whatever was to produce them.
  Event ready() const;
  // The address of the contents, valid until the buffer is deleted. An address of this process on
  // CPU only. Throws Unimplemented where the plug-in tells none.
  uintptr_t address() const;

  // Copies the whole contents, row-major, to `out`, which must be exactly that large
  // ("pjrt.host_size") and live until the event is ready.
  Event to_host(std::span<std::byte> out) const;
  // Copies out.size() bytes of the raw storage from byte `offset` on. Throws out_of_range
  // "pjrt.raw_range".
  Event copy_raw(std::span<std::byte> out, size_t offset) const;
  // A copy on another device of the same client.
  Buffer copy_to(const Device& device) const;
  // A copy on the same device, in memory of its own.
  Buffer clone() const;

 private:
  void check() const;

  std::shared_ptr<const Client> client_;
  PJRT_Buffer* handle_ = nullptr;
};

// A buffer under way: `host_free` is ready when the host bytes may be changed or freed.
struct HostTransfer {
  Buffer buffer;
  Event host_free;
};

}  // namespace strata::pjrt
