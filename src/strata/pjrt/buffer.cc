#include "strata/pjrt/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/pjrt/c_api.h"

namespace strata::pjrt {
namespace {

constexpr uintptr_t kViewAlignment = 64;

// Bytes from the first element to behind the last one.
size_t strided_extent(DType dtype, std::span<const int64_t> dims,
                      std::span<const int64_t> byte_strides) {
  if (element_count(dims) == 0) return 0;
  size_t extent = size_of(dtype);
  for (size_t i = 0; i < dims.size(); ++i) {
    extent += static_cast<size_t>(dims[i] - 1) * static_cast<size_t>(byte_strides[i]);
  }
  return extent;
}

void check_host_bytes(DType dtype, std::span<const int64_t> dims, size_t bytes,
                      std::span<const int64_t> byte_strides) {
  size_t dense = static_cast<size_t>(element_count(dims)) * size_of(dtype);
  if (byte_strides.empty()) {
    if (bytes == dense) return;
    fail({.id = "pjrt.host_size",
          .where = "host bytes of " + shape_text(dtype, dims),
          .expected = std::to_string(dense) + " bytes",
          .got = std::to_string(bytes)});
  }
  bool lawful =
      byte_strides.size() == dims.size() && std::all_of(byte_strides.begin(), byte_strides.end(),
                                                        [](int64_t stride) { return stride >= 0; });
  size_t extent = lawful ? strided_extent(dtype, dims, byte_strides) : 0;
  if (lawful && bytes >= extent) return;
  fail({.id = "pjrt.host_size",
        .where = "host bytes of " + shape_text(dtype, dims) + " with byte strides " +
                 list_text(byte_strides),
        .expected = lawful ? "at least " + std::to_string(extent) + " bytes"
                           : "one stride >= 0 for each dim",
        .got = std::to_string(bytes) + " bytes"});
}

PJRT_HostBufferSemantics to_pjrt(HostUse use) {
  switch (use) {
    case HostUse::copy_during_call:
      return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostUse::until_transfer_completes:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostUse::zero_copy:
      return PJRT_HostBufferSemantics_kImmutableZeroCopy;
    case HostUse::mutable_zero_copy:
      return PJRT_HostBufferSemantics_kMutableZeroCopy;
  }
  return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
}

// The end of a view's life, told once. A plug-in that refuses the view may or may not have called
// back by then; `fired` tells.
struct ViewEnd {
  std::function<void()> on_delete;
  std::atomic<bool> fired = false;
};

void end_view(void*, void* user_arg) {
  std::unique_ptr<std::shared_ptr<ViewEnd>> end(static_cast<std::shared_ptr<ViewEnd>*>(user_arg));
  (*end)->fired = true;
  if ((*end)->on_delete) (*end)->on_delete();
}

}  // namespace

Buffer::Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* handle)
    : client_(std::move(client)), handle_(handle) {}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), handle_(std::exchange(other.handle_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));  // so that what was held here goes at once
  std::swap(client_, taken.client_);
  std::swap(handle_, taken.handle_);
  return *this;
}

Buffer::~Buffer() {
  if (handle_ == nullptr) return;
  auto args = zeroed<PJRT_Buffer_Destroy_Args>();
  args.buffer = handle_;
  call_quietly(*client_->plugin(), &PJRT_Api::PJRT_Buffer_Destroy, args);
}

HostTransfer Buffer::from_host(const std::shared_ptr<const Client>& client, const Device& device,
                               DType dtype, std::span<const int64_t> dims,
                               std::span<const std::byte> bytes, HostUse use,
                               std::span<const int64_t> byte_strides) {
  check_host_bytes(dtype, dims, bytes.size(), byte_strides);
  // A plug-in may look at the address even where there is nothing to read.
  static constexpr std::byte kNothing{};
  auto args = zeroed<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client->handle();
  args.data = bytes.data() == nullptr ? &kNothing : bytes.data();
  args.type = pjrt::to_pjrt(dtype);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.byte_strides = byte_strides.data();
  args.num_byte_strides = byte_strides.size();
  args.host_buffer_semantics = to_pjrt(use);
  args.device = device.handle;
  call(*client->plugin(), &PJRT_Api::PJRT_Client_BufferFromHostBuffer, args);
  return {.buffer = Buffer(client, args.buffer),
          .host_free = Event(client->plugin(), args.done_with_host_buffer)};
}

Buffer Buffer::view(const std::shared_ptr<const Client>& client, const Device& device, DType dtype,
                    std::span<const int64_t> dims, void* memory, std::function<void()> on_delete) {
  if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % kViewAlignment != 0) {
    fail({.id = "pjrt.view_alignment",
          .where = "view of " + shape_text(dtype, dims),
          .expected = fmt::format("memory aligned to {} bytes", kViewAlignment),
          .got = fmt::format("address {}", memory),
          .cure = "Copy the bytes to the device, or pad the file or segment they lie in"});
  }
  auto end = std::make_shared<ViewEnd>();
  end->on_delete = std::move(on_delete);
  auto holder = std::make_unique<std::shared_ptr<ViewEnd>>(end);
  auto args = zeroed<PJRT_Client_CreateViewOfDeviceBuffer_Args>();
  args.client = client->handle();
  args.device_buffer_ptr = memory;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.element_type = pjrt::to_pjrt(dtype);
  args.device = device.handle;
  args.memory = device.memory;
  // Never null: the plug-ins call it whatever the header says.
  args.on_delete_callback = &end_view;
  args.on_delete_callback_arg = holder.get();
  try {
    call(*client->plugin(), &PJRT_Api::PJRT_Client_CreateViewOfDeviceBuffer, args);
  } catch (...) {
    if (end->fired) static_cast<void>(holder.release());
    throw;
  }
  static_cast<void>(holder.release());
  return Buffer(client, args.buffer);
}

void Buffer::check() const {
  if (handle_ != nullptr) return;
  fail({.id = "pjrt.buffer_empty",
        .where = "device buffer",
        .expected = "a buffer that owns device memory",
        .got = "an empty one (moved from, or never filled)",
        .code = Code::failed_precondition});
}

DType Buffer::dtype() const {
  check();
  auto args = zeroed<PJRT_Buffer_ElementType_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_ElementType, args);
  return to_dtype(number_of(args.type));
}

Dims Buffer::dims() const {
  check();
  auto args = zeroed<PJRT_Buffer_Dimensions_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_Dimensions, args);
  return Dims(args.dims, args.dims + args.num_dims);
}

int Buffer::device_id() const {
  check();
  auto args = zeroed<PJRT_Buffer_Device_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_Device, args);
  for (const Device& device : client_->devices()) {
    if (device.handle == args.device) return device.id;
  }
  return -1;
}

size_t Buffer::bytes_on_device() const {
  check();
  auto args = zeroed<PJRT_Buffer_OnDeviceSizeInBytes_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes, args);
  return args.on_device_size_in_bytes;
}

bool Buffer::deleted() const {
  check();
  auto args = zeroed<PJRT_Buffer_IsDeleted_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_IsDeleted, args);
  return args.is_deleted;
}

void Buffer::free_memory() {
  check();
  auto args = zeroed<PJRT_Buffer_Delete_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_Delete, args);
}

Event Buffer::ready() const {
  check();
  auto args = zeroed<PJRT_Buffer_ReadyEvent_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_ReadyEvent, args);
  return Event(client_->plugin(), args.event);
}

uintptr_t Buffer::address() const {
  check();
  auto args = zeroed<PJRT_Buffer_UnsafePointer_Args>();
  args.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_UnsafePointer, args);
  return args.buffer_pointer;
}

Event Buffer::to_host(std::span<std::byte> out) const {
  Dims shape = dims();
  check_host_bytes(dtype(), shape, out.size(), {});
  std::vector<int64_t> minor_to_major(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    minor_to_major[i] = static_cast<int64_t>(shape.size() - 1 - i);
  }
  auto layout = zeroed<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = zeroed<PJRT_Buffer_MemoryLayout_Tiled>();
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  // A null destination would only ask for the size.
  static std::byte nowhere{};
  auto args = zeroed<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = handle_;
  args.host_layout = &layout;
  args.dst = out.data() == nullptr ? &nowhere : out.data();
  args.dst_size = out.size();
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_ToHostBuffer, args);
  return Event(client_->plugin(), args.event);
}

Event Buffer::copy_raw(std::span<std::byte> out, size_t offset) const {
  size_t size = bytes_on_device();
  if (offset > size || out.size() > size - offset) {
    fail({.id = "pjrt.raw_range",
          .where = "raw copy of " + shape_text(dtype(), dims()),
          .expected = fmt::format("a range inside {} bytes", size),
          .got = fmt::format("{} bytes from byte {}", out.size(), offset),
          .code = Code::out_of_range});
  }
  auto args = zeroed<PJRT_Buffer_CopyRawToHost_Args>();
  args.buffer = handle_;
  args.dst = out.data();
  args.offset = static_cast<int64_t>(offset);
  args.transfer_size = static_cast<int64_t>(out.size());
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_CopyRawToHost, args);
  return Event(client_->plugin(), args.event);
}

Buffer Buffer::copy_to(const Device& device) const {
  check();
  auto args = zeroed<PJRT_Buffer_CopyToDevice_Args>();
  args.buffer = handle_;
  args.dst_device = device.handle;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_CopyToDevice, args);
  return Buffer(client_, args.dst_buffer);
}

Buffer Buffer::clone() const {
  check();
  auto memory = zeroed<PJRT_Buffer_Memory_Args>();
  memory.buffer = handle_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_Memory, memory);
  auto args = zeroed<PJRT_Buffer_CopyToMemory_Args>();
  args.buffer = handle_;
  args.dst_memory = memory.memory;
  try {
    call(*client_->plugin(), &PJRT_Api::PJRT_Buffer_CopyToMemory, args);
    return Buffer(client_, args.dst_buffer);
  } catch (const Error& e) {
    // The header lets a plug-in refuse a copy inside one memory; then it goes through the host.
    bool refused = e.code() == Code::unimplemented || e.code() == Code::invalid_argument;
    if (!refused || deleted()) throw;
  }
  HostTensor host(dtype(), dims());
  to_host({host.bytes(), host.byte_size()}).wait();
  return from_host(client_, client_->device(device_id()), host.dtype(), host.dims(),
                   {host.bytes(), host.byte_size()})
      .buffer;
}

}  // namespace strata::pjrt
