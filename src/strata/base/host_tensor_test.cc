#include "strata/base/host_tensor.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace strata {
namespace {

TEST(HostTensorTest, HoldsValuesAlignedAndInRowMajorOrder) {
  auto t = HostTensor::of<float>({2, 3}, std::vector<float>{0, 1, 2, 3, 4, 5});
  EXPECT_EQ(t.dtype(), DType::f32);
  EXPECT_EQ(t.size(), 6);
  EXPECT_EQ(t.byte_size(), 24u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.bytes()) % 64, 0u);
  EXPECT_EQ(t.at(4), 4.0);
  EXPECT_EQ(shape_text(t.dtype(), t.dims()), "2x3xf32");
}

TEST(HostTensorTest, StartsAsZerosAlsoWithoutElements) {
  HostTensor t(DType::i64, {3});
  for (int64_t v : t.data<int64_t>()) EXPECT_EQ(v, 0);
  HostTensor empty(DType::f32, {4, 0, 2});
  EXPECT_EQ(empty.size(), 0);
  EXPECT_TRUE(empty.data<float>().empty());
  EXPECT_EQ(HostTensor::scalar<int32_t>(7).at(0), 7.0);
}

TEST(HostTensorTest, CloneIsDeep) {
  auto t = HostTensor::of<int32_t>({2}, std::vector<int32_t>{1, 2});
  HostTensor copy = t.clone();
  t.set(0, 9);
  EXPECT_EQ(copy.at(0), 1.0);
  EXPECT_EQ(t.at(0), 9.0);
}

TEST(HostTensorTest, SetAndAtAgreeForEveryWritableType) {
  for (DType d : {DType::pred, DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16,
                  DType::u32, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    HostTensor t(d, {2});
    t.set(1, 1.0);
    EXPECT_EQ(t.at(1), 1.0) << name_of(d);
    EXPECT_EQ(t.at(0), 0.0) << name_of(d);
  }
}

TEST(HostTensorTest, RawViewsOfHalfAndByteTypes) {
  HostTensor t(DType::bf16, {1});
  t.set(0, 1.0);
  EXPECT_EQ(t.data<uint16_t>()[0], 0x3f80);
  HostTensor f8(DType::f8e4m3fn, {1});
  f8.data<uint8_t>()[0] = 0x38;
  EXPECT_EQ(f8.at(0), 1.0);
}

TEST(HostTensorTest, ConvertRoundsFloatsAndTruncatesToIntegers) {
  auto t = HostTensor::of<float>({3}, std::vector<float>{1.00390625f, -2.75f, 3.0f});
  HostTensor bf16 = convert(t, DType::bf16);
  EXPECT_EQ(bf16.at(0), 1.0);
  HostTensor i32 = convert(t, DType::i32);
  EXPECT_EQ(i32.at(1), -2.0);
  EXPECT_EQ(convert(t, DType::f32).at(0), t.at(0));
}

TEST(HostTensorTest, ElementCountOfAZeroDimIsZeroWhateverTheRest) {
  EXPECT_EQ(element_count(Dims{}), 1);
  EXPECT_EQ(element_count(Dims{INT64_MAX, INT64_MAX, 0}), 0);
}

}  // namespace
}  // namespace strata
