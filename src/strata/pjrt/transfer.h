// Filling device buffers piece by piece from the host.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/base/host_tensor.h"
#include "strata/pjrt/buffer.h"

struct PJRT_AsyncHostToDeviceTransferManager;

namespace strata::pjrt {

struct ShapeSpec {
  DType dtype = DType::f32;
  Dims dims;
};

// Allocates buffers on one device at once and fills them by chunks at byte offsets, so that a
// stacked parameter is put together without a second full copy on the host. Move-only. Chunks of
// different buffers may be sent from different threads.
class ChunkedTransfer {
 public:
  // Throws "pjrt.call" or, on a plug-in without the function, Unimplemented.
  ChunkedTransfer(std::shared_ptr<const Client> client, const Device& device,
                  std::vector<ShapeSpec> shapes);
  ChunkedTransfer(ChunkedTransfer&& other) noexcept;
  ChunkedTransfer& operator=(ChunkedTransfer&& other) noexcept;
  ~ChunkedTransfer();

  size_t size() const { return shapes_.size(); }

  // Copies `bytes` to byte `offset` of buffer `index` (row-major). `last` says that nothing more
  // follows for this buffer, which then becomes ready. The bytes must live until the event is
  // ready. Throws out_of_range "pjrt.chunk_range".
  Event send(size_t index, std::span<const std::byte> bytes, size_t offset, bool last);
  // The buffer itself, at any time, once. It is ready when its last chunk has arrived.
  Buffer take(size_t index);
  // Makes buffer `index` fail instead; whoever waits for it gets this error.
  void set_error(size_t index, Code code, const std::string& message);

 private:
  void check_index(size_t index) const;

  std::shared_ptr<const Client> client_;
  std::vector<ShapeSpec> shapes_;
  std::vector<bool> taken_;
  PJRT_AsyncHostToDeviceTransferManager* handle_ = nullptr;
};

}  // namespace strata::pjrt
