#include "strata/runtime/array.h"

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "strata/pjrt/test_support.h"
#include "strata/runtime/array_builder.h"
#include "strata/runtime/box_copy.h"

namespace strata::runtime {
namespace {

using pjrt::contains;
using pjrt::error_of;
using sharding::Box;
using sharding::Mesh;
using sharding::ParamType;

class ArrayTest : public pjrt::OnBothPlugins {};
INSTANTIATE_TEST_SUITE_P(Plugins, ArrayTest, ::testing::ValuesIn(pjrt::kPlugins),
                         pjrt::plugin_label);

HostTensor counting(Dims dims) {
  HostTensor t(DType::f32, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.set(i, static_cast<double>(i));
  return t;
}

std::span<const std::byte> bytes_of(const HostTensor& t) { return {t.bytes(), t.byte_size()}; }

bool same(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.bytes(), b.bytes(), a.byte_size()) == 0;
}

// f32 of `sizes`, dim i sharded over axes[i] (empty = not).
SpecPtr sharded(const Dims& sizes, const std::vector<std::string>& axes, const Mesh& mesh) {
  ParamType type = sharding::plain_type(DType::f32, sizes);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].empty()) type.dims[i].axes = {axes[i]};
  }
  return ArraySpec::sharded(type, mesh, "w");
}

TEST_P(ArrayTest, RoundTripsOnOneDevice) {
  auto c = client();
  HostTensor host = counting({3, 4});
  Array array = Array::put(c, host);
  EXPECT_EQ(array.dtype(), DType::f32);
  EXPECT_EQ(array.dims(), (Dims{3, 4}));
  EXPECT_TRUE(same(array.get(), host));
  HostTensor empty(DType::i32, {0, 5});
  EXPECT_TRUE(same(Array::put(c, empty).get(), empty));
  HostTensor scalar = HostTensor::scalar<int64_t>(7);
  EXPECT_TRUE(same(Array::put(c, scalar).get(), scalar));
}

TEST_P(ArrayTest, ShardsBySpecAndPutsTogetherAgain) {
  auto c = client(4);
  Mesh mesh = Mesh::parse("x=2,y=2");
  HostTensor host = counting({4, 6});
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"x", ""}, {"", "y"}, {"x", "y"}, {"y", "x"}, {"", ""}}) {
    SpecPtr spec = sharded({4, 6}, axes, mesh);
    SCOPED_TRACE(spec->text());
    Array array = Array::put(c, spec, bytes_of(host));
    ASSERT_EQ(array.shard_count(), 4u);
    for (size_t s = 0; s < 4; ++s) {
      const Box& box = spec->shards[s].box;
      EXPECT_EQ(array.buffer(s).device_id(), static_cast<int>(s));
      std::vector<float> part = pjrt::get<float>(array.buffer(s));
      ASSERT_EQ(part.size(), static_cast<size_t>(box.elements()));
      // First and last element, from the numbers' own meaning: value = 6 row + column.
      EXPECT_EQ(part.front(), static_cast<float>(6 * box.start[0] + box.start[1]));
      EXPECT_EQ(part.back(), static_cast<float>(6 * (box.start[0] + box.size[0] - 1) +
                                                box.start[1] + box.size[1] - 1));
    }
    EXPECT_TRUE(same(array.get(), host));
    EXPECT_TRUE(same(array.clone().get(), host));
  }
}

TEST_P(ArrayTest, FollowsTheMeshsDevices) {
  auto c = client(4);
  Mesh mesh({{"x", 2}}, {3, 1});
  SpecPtr spec = sharded({4}, {"x"}, mesh);
  Array array = Array::put(c, spec, bytes_of(counting({4})));
  EXPECT_EQ(array.buffer(0).device_id(), 3);
  EXPECT_EQ(pjrt::get<float>(array.buffer(1)), (std::vector<float>{2, 3}));
  EXPECT_EQ(spec->text(), "4xf32 on devices [3, 1], shards of 2");
}

TEST_P(ArrayTest, PutsFromUnalignedBytesWhileTheyStay) {
  auto c = client();
  HostTensor host = counting({1000});
  std::vector<std::byte> shifted(host.byte_size() + 40);
  std::memcpy(shifted.data() + 40, host.bytes(), host.byte_size());
  SpecPtr spec = ArraySpec::single(DType::f32, {1000});
  PendingPut pending = Array::start_put(c, spec, std::span(shifted).subspan(40));
  Array array = pending.finish();
  std::fill(shifted.begin(), shifted.end(), std::byte{0});
  EXPECT_TRUE(same(array.get(), host));
}

TEST_P(ArrayTest, CloneSurvivesTheOriginal) {
  auto c = client();
  HostTensor host = counting({5});
  Array array = Array::put(c, host);
  Array copy = array.clone();
  array.reset();
  EXPECT_TRUE(array.consumed());
  EXPECT_TRUE(same(copy.get(), host));
}

TEST_P(ArrayTest, MovedFromArraysAreErrors) {
  auto c = client();
  Array array = Array::put(c, counting({5}));
  Array other = std::move(array);
  for (const auto& action : std::vector<std::function<void()>>{
           [&] { array.get(); }, [&] { array.dims(); }, [&] { array.wait(); },
           [&] { array.clone(); }, [&] { Array().client(); }}) {
    Error e = error_of(action);
    EXPECT_EQ(e.id(), "runtime.array_consumed");
    EXPECT_EQ(e.code(), Code::failed_precondition);
    EXPECT_TRUE(contains(e.what(), "clone() before donating")) << e.what();
  }
  EXPECT_EQ(other.dims(), Dims{5});
}

TEST_P(ArrayTest, WrongSizesAreErrors) {
  auto c = client();
  SpecPtr spec = ArraySpec::single(DType::f32, {4});
  Error put = error_of([&] { Array::put(c, spec, bytes_of(counting({3}))); });
  EXPECT_EQ(put.id(), "runtime.put_size");
  EXPECT_TRUE(contains(put.what(), "expected 16 bytes, got 12")) << put.what();
  std::vector<std::byte> room(8);
  Error get = error_of([&] { Array::put(c, counting({4})).get(room); });
  EXPECT_EQ(get.id(), "runtime.get_size");
  EXPECT_TRUE(contains(get.what(), "16 bytes of room, got 8")) << get.what();
  Error shards = error_of([&] { Array(spec, std::vector<pjrt::Buffer>()); });
  EXPECT_EQ(shards.id(), "runtime.shard_count");
  EXPECT_TRUE(contains(shards.what(), "expected 1 buffers, got 0"));
  Error none = error_of([] { ArraySpec::replicated(DType::f32, {2}, {}); });
  EXPECT_EQ(none.id(), "runtime.no_devices");
  EXPECT_TRUE(contains(none.what(), "at least one device"));
}

TEST_P(ArrayTest, ViewsReadInPlace) {
  auto c = client(2);
  HostTensor host = counting({16});
  std::atomic<int> ended = 0;
  {
    Array view =
        Array::view(c, ArraySpec::single(DType::f32, {16}), host.bytes(), [&] { ++ended; });
    EXPECT_TRUE(view.is_view());
    EXPECT_EQ(view.buffer(0).address(), reinterpret_cast<uintptr_t>(host.bytes()));
    Array copy = view.clone();
    EXPECT_FALSE(copy.is_view());
    EXPECT_TRUE(same(copy.get(), host));
    EXPECT_EQ(ended, 0);
  }
  // The plug-in may tell from a thread of its own.
  for (int i = 0; i < 2000 && ended == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ended, 1);
  Error e = error_of([&] {
    Array::view(c, ArraySpec::replicated(DType::f32, {16}, {0, 1}), host.bytes(), nullptr);
  });
  EXPECT_EQ(e.id(), "runtime.view_devices");
  EXPECT_TRUE(contains(e.what(), "got 2 devices")) << e.what();
}

TEST_P(ArrayTest, BuildsAStackLayerByLayer) {
  auto c = client(4);
  HostTensor whole = counting({3, 4, 6});
  Mesh mesh = Mesh::parse("x=2,y=2");
  for (const SpecPtr& spec :
       {ArraySpec::single(DType::f32, {3, 4, 6}), sharded({3, 4, 6}, {"", "x", "y"}, mesh),
        sharded({3, 4, 6}, {"", "", "y"}, mesh)}) {
    SCOPED_TRACE(spec->text());
    ArrayBuilder builder(c, spec);
    for (int64_t layer : {2, 0, 1}) {
      std::vector<std::byte> piece(4 * 6 * 4);
      std::memcpy(piece.data(), whole.bytes() + static_cast<size_t>(layer) * piece.size(),
                  piece.size());
      builder.write({.start = {layer, 0, 0}, .size = {1, 4, 6}}, piece);
      std::fill(piece.begin(), piece.end(), std::byte{255});
    }
    EXPECT_TRUE(same(builder.finish().get(), whole));
  }
}

TEST_P(ArrayTest, BuildsAStackOnAnInnerAxis) {
  auto c = client();
  ArrayBuilder builder(c, ArraySpec::single(DType::f32, {2, 3}));
  std::vector<float> column = {0, 0};
  for (int64_t layer = 0; layer < 3; ++layer) {
    column = {static_cast<float>(layer), static_cast<float>(10 + layer)};
    builder.write({.start = {0, layer}, .size = {2, 1}}, std::as_bytes(std::span(column)));
  }
  EXPECT_EQ(pjrt::get<float>(builder.finish().buffer(0)),
            (std::vector<float>{0, 1, 2, 10, 11, 12}));
}

TEST_P(ArrayTest, BuildsArraysWithoutElements) {
  auto c = client();
  ArrayBuilder builder(c, ArraySpec::single(DType::f32, {0, 3}));
  Array array = builder.finish();
  array.wait();
  EXPECT_EQ(array.get().size(), 0);
}

TEST_P(ArrayTest, BuilderMistakesAreErrors) {
  auto c = client();
  ArrayBuilder builder(c, ArraySpec::single(DType::f32, {2, 2}));
  std::vector<std::byte> row(8);
  Error range = error_of([&] { builder.write({.start = {2, 0}, .size = {1, 2}}, row); });
  EXPECT_EQ(range.id(), "runtime.box_range");
  EXPECT_TRUE(contains(range.what(), "a box inside [2, 2]")) << range.what();
  EXPECT_EQ(error_of([&] { builder.write({.start = {0}, .size = {1}}, row); }).id(),
            "runtime.box_range");
  Error size = error_of([&] { builder.write({.start = {0, 0}, .size = {2, 2}}, row); });
  EXPECT_EQ(size.id(), "runtime.box_size");
  EXPECT_TRUE(contains(size.what(), "expected 16 bytes, got 8")) << size.what();
  builder.write({.start = {0, 0}, .size = {1, 2}}, row);
  Error early = error_of([&] { builder.finish(); });
  EXPECT_EQ(early.id(), "runtime.array_incomplete");
  EXPECT_TRUE(contains(early.what(), "8 bytes missing")) << early.what();
  builder.write({.start = {1, 0}, .size = {1, 2}}, row);
  Error again = error_of([&] { builder.write({.start = {0, 0}, .size = {1, 2}}, row); });
  EXPECT_EQ(again.id(), "runtime.box_again");
  EXPECT_TRUE(contains(again.what(), "written once")) << again.what();
  EXPECT_EQ(builder.finish().dims(), (Dims{2, 2}));
}

// Against the definition: every element of the part, one by one.
TEST(BoxCopyTest, RunsCoverEveryElementOnce) {
  std::mt19937 random(7);
  auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    auto rank = static_cast<size_t>(draw(0, 4));
    Dims dims(rank);
    for (int64_t& d : dims) d = draw(1, 4);
    auto box_in = [&](const Box& outer) {
      Box box = outer;
      for (size_t i = 0; i < rank; ++i) {
        box.start[i] = outer.start[i] + draw(0, outer.size[i] - 1);
        box.size[i] = draw(1, outer.start[i] + outer.size[i] - box.start[i]);
      }
      return box;
    };
    Box whole{.start = Dims(rank, 0), .size = dims};
    Box part = box_in(whole);
    // Two boxes around the part.
    auto grow = [&] {
      Box box = part;
      for (size_t i = 0; i < rank; ++i) {
        box.start[i] = draw(0, part.start[i]);
        box.size[i] = draw(part.start[i] + part.size[i], dims[i]) - box.start[i];
      }
      return box;
    };
    Box a = grow(), b = grow();
    std::vector<int> values(static_cast<size_t>(a.elements()));
    std::iota(values.begin(), values.end(), 1);
    std::vector<int> moved(static_cast<size_t>(b.elements()), 0);
    for_each_run(part, a, b, sizeof(int), [&](size_t from, size_t to, size_t n) {
      std::memcpy(reinterpret_cast<char*>(moved.data()) + to,
                  reinterpret_cast<const char*>(values.data()) + from, n);
    });
    // Element k of b: its place in the whole, and whether it lies in the part.
    for (int64_t k = 0; k < b.elements(); ++k) {
      int64_t rest = k, in_a = 0, scale = 1;
      bool inside = true;
      for (size_t i = rank; i-- > 0;) {
        int64_t at = b.start[i] + rest % b.size[i];
        rest /= b.size[i];
        inside = inside && at >= part.start[i] && at < part.start[i] + part.size[i];
        in_a += (at - a.start[i]) * scale;
        scale *= a.size[i];
      }
      ASSERT_EQ(moved[static_cast<size_t>(k)], inside ? in_a + 1 : 0) << "trial " << trial;
    }
  }
}

TEST(BoxCopyTest, Contiguity) {
  EXPECT_TRUE(is_contiguous({4, 6}, {.start = {1, 0}, .size = {2, 6}}));
  EXPECT_TRUE(is_contiguous({4, 6}, {.start = {1, 2}, .size = {1, 3}}));
  EXPECT_FALSE(is_contiguous({4, 6}, {.start = {0, 0}, .size = {2, 3}}));
  EXPECT_TRUE(is_contiguous({}, {.start = {}, .size = {}}));
  EXPECT_EQ(first_element({4, 6}, {.start = {1, 2}, .size = {1, 3}}), 8);
  EXPECT_EQ(byte_strides({2, 3, 4}, 2), (Dims{24, 8, 2}));
}

}  // namespace
}  // namespace strata::runtime
