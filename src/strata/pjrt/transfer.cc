#include "strata/pjrt/transfer.h"

#include <fmt/format.h>

#include <utility>

#include "strata/base/error.h"
#include "strata/pjrt/c_api.h"

namespace strata::pjrt {

ChunkedTransfer::ChunkedTransfer(std::shared_ptr<const Client> client, const Device& device,
                                 std::vector<ShapeSpec> shapes)
    : client_(std::move(client)), shapes_(std::move(shapes)), taken_(shapes_.size(), false) {
  std::vector<PJRT_ShapeSpec> specs;
  for (const ShapeSpec& shape : shapes_) {
    auto spec = zeroed<PJRT_ShapeSpec>();
    spec.dims = shape.dims.data();
    spec.num_dims = shape.dims.size();
    spec.element_type = to_pjrt(shape.dtype);
    specs.push_back(spec);
  }
  auto args = zeroed<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
  args.client = client_->handle();
  args.shape_specs = specs.data();
  args.num_shape_specs = specs.size();
  args.memory = device.memory;
  call(*client_->plugin(), &PJRT_Api::PJRT_Client_CreateBuffersForAsyncHostToDevice, args);
  handle_ = args.transfer_manager;
}

ChunkedTransfer::ChunkedTransfer(ChunkedTransfer&& other) noexcept
    : client_(std::move(other.client_)),
      shapes_(std::move(other.shapes_)),
      taken_(std::move(other.taken_)),
      handle_(std::exchange(other.handle_, nullptr)) {}

ChunkedTransfer& ChunkedTransfer::operator=(ChunkedTransfer&& other) noexcept {
  ChunkedTransfer taken(std::move(other));  // so that what was held here goes at once
  std::swap(client_, taken.client_);
  std::swap(shapes_, taken.shapes_);
  std::swap(taken_, taken.taken_);
  std::swap(handle_, taken.handle_);
  return *this;
}

ChunkedTransfer::~ChunkedTransfer() {
  if (handle_ == nullptr) return;
  auto args = zeroed<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>();
  args.transfer_manager = handle_;
  call_quietly(*client_->plugin(), &PJRT_Api::PJRT_AsyncHostToDeviceTransferManager_Destroy, args);
}

void ChunkedTransfer::check_index(size_t index) const {
  if (index < shapes_.size()) return;
  fail({.id = "pjrt.chunk_index",
        .where = "chunked transfer",
        .expected = fmt::format("a buffer index below {}", shapes_.size()),
        .got = std::to_string(index),
        .code = Code::out_of_range});
}

Event ChunkedTransfer::send(size_t index, std::span<const std::byte> bytes, size_t offset,
                            bool last) {
  check_index(index);
  const ShapeSpec& shape = shapes_[index];
  size_t size = static_cast<size_t>(element_count(shape.dims)) * size_of(shape.dtype);
  if (offset > size || bytes.size() > size - offset) {
    fail({.id = "pjrt.chunk_range",
          .where =
              fmt::format("chunk of buffer {} ({})", index, shape_text(shape.dtype, shape.dims)),
          .expected = fmt::format("a range inside {} bytes", size),
          .got = fmt::format("{} bytes to byte {}", bytes.size(), offset),
          .code = Code::out_of_range});
  }
  auto args = zeroed<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
  args.transfer_manager = handle_;
  args.buffer_index = static_cast<int>(index);
  args.data = bytes.data();
  args.offset = static_cast<int64_t>(offset);
  args.transfer_size = static_cast<int64_t>(bytes.size());
  args.is_last_transfer = last;
  call(*client_->plugin(), &PJRT_Api::PJRT_AsyncHostToDeviceTransferManager_TransferData, args);
  return Event(client_->plugin(), args.done_with_h2d_transfer);
}

Buffer ChunkedTransfer::take(size_t index) {
  check_index(index);
  if (taken_[index]) {
    fail({.id = "pjrt.chunk_taken",
          .where = fmt::format("chunked transfer, buffer {}", index),
          .expected = "a buffer that was not taken yet",
          .got = "a second take",
          .code = Code::failed_precondition});
  }
  auto args = zeroed<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
  args.transfer_manager = handle_;
  args.buffer_index = static_cast<int>(index);
  call(*client_->plugin(), &PJRT_Api::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, args);
  taken_[index] = true;
  return Buffer(client_, args.buffer_out);
}

void ChunkedTransfer::set_error(size_t index, Code code, const std::string& message) {
  check_index(index);
  auto args = zeroed<PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args>();
  args.transfer_manager = handle_;
  args.buffer_index = static_cast<int>(index);
  args.error_code = static_cast<PJRT_Error_Code>(code);
  args.error_message = message.data();
  args.error_message_size = message.size();
  call(*client_->plugin(), &PJRT_Api::PJRT_AsyncHostToDeviceTransferManager_SetBufferError, args);
}

}  // namespace strata::pjrt
