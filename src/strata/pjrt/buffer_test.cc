#include "strata/pjrt/buffer.h"

#include <atomic>
#include <numeric>

#include "strata/pjrt/test_support.h"
#include "strata/pjrt/transfer.h"

namespace strata::pjrt {
namespace {

class BufferTest : public OnBothPlugins {};
INSTANTIATE_TEST_SUITE_P(Plugins, BufferTest, ::testing::ValuesIn(kPlugins), plugin_label);

std::vector<float> iota(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST_P(BufferTest, RoundTripsEveryElementType) {
  auto c = client();
  for (int d = 0; d <= static_cast<int>(DType::f64); ++d) {
    auto dtype = static_cast<DType>(d);
    SCOPED_TRACE(std::string(name_of(dtype)));
    HostTensor in(dtype, {3, 5});
    for (size_t i = 0; i < in.byte_size(); ++i) in.bytes()[i] = static_cast<std::byte>(i % 2);
    Buffer b =
        Buffer::from_host(c, c->device(0), dtype, in.dims(), {in.bytes(), in.byte_size()}).buffer;
    EXPECT_EQ(b.dtype(), dtype);
    EXPECT_EQ(b.dims(), (Dims{3, 5}));
    EXPECT_EQ(b.bytes_on_device(), in.byte_size());
    HostTensor out(dtype, {3, 5});
    b.to_host({out.bytes(), out.byte_size()}).wait();
    EXPECT_EQ(std::memcmp(in.bytes(), out.bytes(), in.byte_size()), 0);
  }
}

TEST_P(BufferTest, ScalarsAndEmptyArrays) {
  auto c = client();
  EXPECT_EQ(get<float>(put<float>(c, {7}, {})), std::vector<float>{7});
  Buffer none = put<float>(c, {}, {0, 4});
  EXPECT_EQ(none.dims(), (Dims{0, 4}));
  EXPECT_TRUE(get<float>(none).empty());
}

TEST_P(BufferTest, StridesTakeAColumnBlock) {
  auto c = client();
  std::vector<float> host = iota(12);  // 3 x 4; the block is columns 1 and 2
  std::vector<int64_t> strides = {16, 4};
  std::vector<int64_t> dims = {3, 2};
  Buffer b = Buffer::from_host(c, c->device(0), DType::f32, dims,
                               std::as_bytes(std::span(host)).subspan(4), HostUse::copy_during_call,
                               strides)
                 .buffer;
  EXPECT_EQ(get<float>(b), (std::vector<float>{1, 2, 5, 6, 9, 10}));
  Error e = error_of([&] {
    Buffer::from_host(c, c->device(0), DType::f32, dims, std::as_bytes(std::span(host)).subspan(12),
                      HostUse::copy_during_call, strides);
  });
  EXPECT_EQ(e.id(), "pjrt.host_size");
  EXPECT_TRUE(contains(e.what(), "at least 40 bytes, got 36")) << e.what();
  strides = {-16, 4};
  EXPECT_TRUE(contains(error_of([&] {
                         Buffer::from_host(c, c->device(0), DType::f32, dims,
                                           std::as_bytes(std::span(host)),
                                           HostUse::copy_during_call, strides);
                       }).what(),
                       "one stride >= 0 for each dim"));
}

TEST_P(BufferTest, WrongSizesAreErrors) {
  auto c = client();
  Error e = error_of([&] { put<float>(c, {1, 2, 3}, {4}); });
  EXPECT_EQ(e.id(), "pjrt.host_size");
  EXPECT_TRUE(contains(e.what(), "4xf32: expected 16 bytes, got 12")) << e.what();
  Buffer b = put<float>(c, {1, 2}, {2});
  std::vector<std::byte> out(4);
  EXPECT_EQ(error_of([&] { b.to_host(out); }).id(), "pjrt.host_size");
}

TEST_P(BufferTest, AnEmptyHandleIsAnError) {
  auto c = client();
  Buffer b = put<float>(c, {1, 2}, {2});
  Buffer moved = std::move(b);
  EXPECT_TRUE(b.empty());
  Error e = error_of([&] { b.dims(); });
  EXPECT_EQ(e.id(), "pjrt.buffer_empty");
  EXPECT_EQ(e.code(), Code::failed_precondition);
  EXPECT_TRUE(contains(e.what(), "moved from"));
  EXPECT_EQ(get<float>(moved), (std::vector<float>{1, 2}));
}

TEST_P(BufferTest, FreedMemoryIsAnErrorToRead) {
  auto c = client();
  Buffer b = put<float>(c, {1, 2}, {2});
  EXPECT_FALSE(b.deleted());
  b.free_memory();
  EXPECT_TRUE(b.deleted());
  Error e = error_of([&] { get<float>(b); });
  EXPECT_TRUE(contains(e.what(), "deleted or donated")) << e.what();
}

TEST_P(BufferTest, ZeroCopyAdoptsAlignedHostBytesOnly) {
  auto c = client();
  HostTensor host(DType::f32, {1024});
  std::vector<int64_t> dims = {512};
  auto adopt = [&](size_t offset) {
    return Buffer::from_host(c, c->device(0), DType::f32, dims, {host.bytes() + offset, 2048},
                             HostUse::zero_copy);
  };
  HostTransfer aligned = adopt(0);
  EXPECT_EQ(aligned.buffer.address(), reinterpret_cast<uintptr_t>(host.bytes()));
  EXPECT_FALSE(aligned.host_free.ready());
  aligned.buffer = Buffer();
  aligned.host_free.wait();
  HostTransfer shifted = adopt(40);
  EXPECT_NE(shifted.buffer.address(), reinterpret_cast<uintptr_t>(host.bytes() + 40));
}

TEST_P(BufferTest, UntilTransferCompletesLeavesTheHostFree) {
  auto c = client();
  std::vector<float> host = iota(100000);
  std::vector<int64_t> dims = {100000};
  HostTransfer t =
      Buffer::from_host(c, c->device(0), DType::f32, dims, std::as_bytes(std::span(host)),
                        HostUse::until_transfer_completes);
  t.host_free.wait();
  std::fill(host.begin(), host.end(), -1.0f);
  EXPECT_EQ(get<float>(t.buffer), iota(100000));
}

TEST_P(BufferTest, ViewsReadForeignMemoryAndTellWhenDone) {
  auto c = client();
  HostTensor host = HostTensor::of<float>({4}, std::vector<float>{1, 2, 3, 4});
  std::atomic<int> ended = 0;
  std::vector<int64_t> dims = {4};
  {
    Buffer view = Buffer::view(c, c->device(0), DType::f32, dims, host.bytes(), [&] { ++ended; });
    EXPECT_EQ(view.address(), reinterpret_cast<uintptr_t>(host.bytes()));
    Executable add = Executable::compile(c, kAdd);
    EXPECT_EQ(get<float>(add.execute(std::vector<const Buffer*>{&view, &view}).outputs[0]),
              (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 1);
  // No callback of the caller's is fine too: ours always stands in.
  { Buffer quiet = Buffer::view(c, c->device(0), DType::f32, dims, host.bytes(), nullptr); }
}

TEST_P(BufferTest, ADonatedViewIsNotReused) {
  auto c = client();
  HostTensor host(DType::f32, {64});
  std::vector<int64_t> dims = {64};
  Buffer view = Buffer::view(c, c->device(0), DType::f32, dims, host.bytes(), nullptr);
  Executable increment = Executable::compile(c, kIncrement);
  Execution run = increment.execute(std::vector<const Buffer*>{&view});
  EXPECT_EQ(get<float>(run.outputs[0]), std::vector<float>(64, 1));
  EXPECT_NE(run.outputs[0].address(), reinterpret_cast<uintptr_t>(host.bytes()));
  EXPECT_EQ(host.at(0), 0);
}

TEST_P(BufferTest, AMisalignedViewIsAnError) {
  auto c = client();
  HostTensor host(DType::f32, {64});
  std::vector<int64_t> dims = {4};
  bool ended = false;
  Error e = error_of([&] {
    Buffer::view(c, c->device(0), DType::f32, dims, host.bytes() + 40, [&] { ended = true; });
  });
  EXPECT_EQ(e.id(), "pjrt.view_alignment");
  EXPECT_TRUE(contains(e.what(), "aligned to 64 bytes")) << e.what();
  EXPECT_FALSE(ended);
}

TEST_P(BufferTest, RawCopiesWithOffset) {
  auto c = client();
  Buffer b = put<float>(c, iota(16), {4, 4});
  std::vector<float> part(3);
  b.copy_raw(std::as_writable_bytes(std::span(part)), 5 * sizeof(float)).wait();
  EXPECT_EQ(part, (std::vector<float>{5, 6, 7}));
  Error e = error_of([&] { b.copy_raw(std::as_writable_bytes(std::span(part)), 56); });
  EXPECT_EQ(e.id(), "pjrt.raw_range");
  EXPECT_TRUE(contains(e.what(), "12 bytes from byte 56")) << e.what();
}

TEST_P(BufferTest, CopiesBetweenDevices) {
  auto c = client(2);
  Buffer b = put<float>(c, {1, 2}, {2}, 0);
  Buffer other = b.copy_to(c->device(1));
  EXPECT_EQ(other.device_id(), 1);
  EXPECT_EQ(get<float>(other), (std::vector<float>{1, 2}));
}

TEST_P(BufferTest, ClonesHaveMemoryOfTheirOwn) {
  auto c = client(2);
  Buffer b = put<float>(c, {1, 2}, {2}, 1);
  Buffer copy = b.clone();
  EXPECT_EQ(copy.device_id(), 1);
  EXPECT_NE(copy.address(), b.address());
  b.free_memory();
  EXPECT_EQ(get<float>(copy), (std::vector<float>{1, 2}));
}

TEST_P(BufferTest, ChunksFillAStackOutOfOrder) {
  auto c = client();
  ChunkedTransfer transfer(c, c->device(0), {{DType::f32, {3, 4}}, {DType::i32, {2}}});
  EXPECT_EQ(transfer.size(), 2u);
  Buffer stack = transfer.take(0);
  EXPECT_FALSE(stack.ready().ready());
  std::vector<float> host = iota(12);
  auto bytes = std::as_bytes(std::span(host));
  transfer.send(0, bytes.subspan(32, 16), 32, false).wait();
  transfer.send(0, bytes.subspan(0, 16), 0, false).wait();
  transfer.send(0, bytes.subspan(16, 16), 16, true).wait();
  stack.ready().wait();
  EXPECT_EQ(get<float>(stack), iota(12));
  std::vector<int32_t> ids = {8, 9};
  transfer.send(1, std::as_bytes(std::span(ids)), 0, true).wait();
  EXPECT_EQ(get<int32_t>(transfer.take(1)), ids);
}

TEST_P(BufferTest, ChunkMistakesAreErrors) {
  auto c = client();
  ChunkedTransfer transfer(c, c->device(0), {{DType::f32, {4}}});
  std::vector<float> host = iota(4);
  auto bytes = std::as_bytes(std::span(host));
  Error range = error_of([&] { transfer.send(0, bytes, 4, true); });
  EXPECT_EQ(range.id(), "pjrt.chunk_range");
  EXPECT_TRUE(contains(range.what(), "16 bytes to byte 4")) << range.what();
  Error index = error_of([&] { transfer.send(3, bytes, 0, true); });
  EXPECT_EQ(index.id(), "pjrt.chunk_index");
  EXPECT_TRUE(contains(index.what(), "below 1, got 3")) << index.what();
  Buffer first = transfer.take(0);
  Error twice = error_of([&] { transfer.take(0); });
  EXPECT_EQ(twice.id(), "pjrt.chunk_taken");
  EXPECT_TRUE(contains(twice.what(), "second take"));
  transfer.send(0, bytes, 0, true).wait();
  EXPECT_EQ(get<float>(first), host);
}

TEST_P(BufferTest, AFailedTransferFailsItsBuffer) {
  auto c = client();
  ChunkedTransfer transfer(c, c->device(0), {{DType::f32, {4}}});
  Buffer b = transfer.take(0);
  transfer.set_error(0, Code::unavailable, "peer gone");
  Error e = error_of([&] { b.ready().wait(); });
  EXPECT_EQ(e.code(), Code::unavailable);
  EXPECT_TRUE(contains(e.what(), "PJRT_Event_Await")) << e.what();
  EXPECT_TRUE(contains(e.what(), "peer gone")) << e.what();
}

TEST(EventTest, TheDefaultOneIsDone) {
  Event event;
  EXPECT_TRUE(event.ready());
  EXPECT_NO_THROW(event.wait());
}

}  // namespace
}  // namespace strata::pjrt
