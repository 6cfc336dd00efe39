#include "strata/weights/stacked_tree.h"

#include <gtest/gtest.h>

#include <cstring>

#include "strata/weights/files_for_test.h"
#include "strata/weights/hf_directory.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::weights {
namespace {

// Element i of leaf `leaf` of layer `layer`: all differ.
float value(int64_t layer, int64_t leaf, int64_t i) {
  return static_cast<float>(1000 * layer + 100 * leaf + i);
}

HostTensor one_layer(int64_t layer, int64_t leaf, const Dims& dims) {
  HostTensor t(DType::f32, dims);
  for (int64_t i = 0; i < t.size(); ++i) t.set(i, value(layer, leaf, i));
  return t;
}

// The layers `numbers` side by side at `axis`, as `dims_of_layers` (one dim, or two).
HostTensor stacked(const std::vector<int64_t>& numbers, int64_t leaf, const Dims& dims, size_t axis,
                   const Dims& dims_of_layers) {
  Dims whole = dims;
  whole.insert(whole.begin() + static_cast<ptrdiff_t>(axis), dims_of_layers.begin(),
               dims_of_layers.end());
  HostTensor t(DType::f32, whole);
  int64_t inner = 1;
  for (size_t i = axis; i < dims.size(); ++i) inner *= dims[i];
  const auto layers = static_cast<int64_t>(numbers.size());
  for (int64_t i = 0; i < t.size(); ++i) {
    int64_t layer = i / inner % layers, rest = i / inner / layers * inner + i % inner;
    t.set(i, value(numbers[static_cast<size_t>(layer)], leaf, rest));
  }
  return t;
}

const std::vector<std::pair<std::string, Dims>> kLeaves = {
    {"mlp.up.weight", {2, 3}}, {"norm.weight", {5}}, {"scale", {}}, {"deep", {2, 1, 2}}};

class StackedTreeTest : public ::testing::Test {
 protected:
  void put(const std::string& name, HostTensor tensor) {
    tensors_.emplace_back(name, std::move(tensor));
  }
  void want_layer(int64_t layer, size_t first = 0, size_t last = kLeaves.size()) {
    for (size_t i = first; i < last; ++i) {
      wanted_.push_back(
          {"model.layers." + std::to_string(layer) + "." + kLeaves[i].first, kLeaves[i].second});
    }
  }
  void write(const Metadata& metadata = {}) {
    std::vector<NamedTensor> named;
    for (const auto& t : tensors_) named.push_back({t.first, &t.second});
    write_safetensors(scratch_ / "tree/model.safetensors", named, metadata);
    tree_ = open_source(scratch_ / "tree");
  }
  // Every wanted tensor is what `one_layer` makes.
  void expect_whole(const TreeDemand& demand = {}) {
    auto seen = unstack(*tree_, wanted_, demand);
    ASSERT_NE(seen, nullptr);
    check_total(*seen, wanted_);
    for (const Wanted& w : wanted_) {
      auto name = parse_layer_name(w.name);
      if (!name) continue;
      int64_t leaf = 0;
      while (kLeaves[static_cast<size_t>(leaf)].first != name->leaf) ++leaf;
      HostTensor expected = one_layer(name->layer, leaf, w.dims);
      HostTensor got = to_host(seen->get(w.name));
      ASSERT_EQ(got.dims(), w.dims) << w.name;
      EXPECT_EQ(std::memcmp(got.bytes(), expected.bytes(), got.byte_size()), 0) << w.name;
      std::vector<std::byte> storage;
      EXPECT_EQ(contiguous(seen->get(w.name), storage).size(), got.byte_size());
      seen->release(seen->get(w.name));
    }
  }
  void SetUp() override { std::filesystem::create_directories(scratch_ / "tree"); }

  ScratchDirectory scratch_;
  std::vector<std::pair<std::string, HostTensor>> tensors_;
  std::vector<Wanted> wanted_;
  std::unique_ptr<TensorSource> tree_;
};

TEST_F(StackedTreeTest, FindsTheAxisFromTheShapes) {
  for (int64_t layers : {1, 2, 4, 7}) {
    for (size_t axis : {0, 1, 2, 3}) {
      tensors_.clear();
      wanted_.clear();
      std::vector<int64_t> numbers;
      for (int64_t i = 0; i < layers; ++i) {
        numbers.push_back(i);
        want_layer(i);
      }
      for (size_t i = 0; i < kLeaves.size(); ++i) {
        size_t at = std::min(axis, kLeaves[i].second.size());
        put("model.layers." + kLeaves[i].first,
            stacked(numbers, static_cast<int64_t>(i), kLeaves[i].second, at, {layers}));
      }
      put("model.norm.weight", one_layer(0, 9, {4}));
      wanted_.push_back({"model.norm.weight", {4}});
      // Dims of 1 and 2 look like layers; the metadata then decides.
      write({{"param_scan_axis", std::to_string(axis)}});
      SCOPED_TRACE(::testing::Message() << layers << " layers at axis " << axis);
      expect_whole();
      expect_whole({.stacked = true, .axis = static_cast<int64_t>(axis)});
      if (axis == 3) expect_whole({.axis = -1});
      tree_.reset();
    }
  }
}

// Layer 0 and the last one stand alone; between them every third is another kind.
TEST_F(StackedTreeTest, ReadsCycleSlotsBetweenLayersOfTheirOwn) {
  for (int64_t layer = 0; layer < 8; ++layer) want_layer(layer);
  for (int64_t alone : {0, 7}) {
    for (size_t i = 0; i < kLeaves.size(); ++i) {
      put("model.layers." + std::to_string(alone) + "." + kLeaves[i].first,
          one_layer(alone, static_cast<int64_t>(i), kLeaves[i].second));
    }
  }
  for (int64_t slot = 0; slot < 3; ++slot) {
    for (size_t i = 0; i < kLeaves.size(); ++i) {
      put("model.layers.layer_" + std::to_string(slot) + "." + kLeaves[i].first,
          stacked({1 + slot, 4 + slot}, static_cast<int64_t>(i), kLeaves[i].second, 0, {2}));
    }
  }
  write();
  expect_whole({.axis = 0});
}

// Two slots: three alike in an inner loop, then one of another kind with other leaves.
TEST_F(StackedTreeTest, ReadsNestedStacks) {
  for (int64_t layer = 0; layer < 8; ++layer) {
    layer % 4 == 3 ? want_layer(layer, 1, 2) : want_layer(layer, 0, 1);
  }
  for (size_t axis : {0, 1, 2}) {
    tensors_.clear();
    put("model.layers.layer_0.mlp.up.weight", stacked({0, 1, 2, 4, 5, 6}, 0, {2, 3}, axis, {2, 3}));
    put("model.layers.layer_1.norm.weight",
        stacked({3, 7}, 1, {5}, std::min<size_t>(axis, 1), {2}));
    write({{"param_scan_axis", std::to_string(axis)}});
    SCOPED_TRACE(axis);
    expect_whole();
    tree_.reset();
  }
}

TEST_F(StackedTreeTest, LeavesUnstackedTreesAlone) {
  put("model.layers.0.scale", one_layer(0, 2, {}));
  wanted_ = {{"model.layers.0.scale", {}}};
  write();
  EXPECT_EQ(unstack(*tree_, wanted_), nullptr);
  expect_error([&] { unstack(*tree_, wanted_, {.stacked = true}); }, "weights.tree_form",
               "expected stacked tensors, as was asked for, got one tensor a layer");
  expect_error([&] { unstack(*tree_, wanted_, {.axis = 1}); }, "weights.tree_form",
               "with the layer dim at axis 1");
  expect_error([&] { unstack(*tree_, wanted_, {.axis = 1}); }, "weights.tree_form",
               "strata convert SRC DST --to hf");
}

TEST_F(StackedTreeTest, DemandsThatTheTreeDoesNotMeetAreErrors) {
  for (int64_t layer = 0; layer < 4; ++layer) want_layer(layer, 0, 1);
  put("model.layers.mlp.up.weight", stacked({0, 1, 2, 3}, 0, {2, 3}, 1, {4}));
  write();
  expect_whole();
  expect_error([&] { unstack(*tree_, wanted_, {.stacked = false}); }, "weights.tree_form",
               "expected one tensor a layer, as was asked for, got stacked tensors");
  expect_error([&] { unstack(*tree_, wanted_, {.axis = 0}); }, "weights.tree_form",
               "expected a layer dim of 4 at axis 0, got model.layers.mlp.up.weight [2, 4, 3] for "
               "layers of [2, 3]");
}

TEST_F(StackedTreeTest, ShapesThatTellNoAxisAreErrors) {
  for (int64_t layer = 0; layer < 2; ++layer) want_layer(layer, 0, 1);
  put("model.layers.mlp.up.weight", stacked({0, 1}, 0, {2, 3}, 0, {2}));
  write();
  expect_error([&] { unstack(*tree_, wanted_); }, "weights.layer_axis", "2 axes fit: say which");
  expect_whole({.axis = 0});
  tree_.reset();
  want_layer(2, 0, 1);
  write();
  expect_error([&] { unstack(*tree_, wanted_); }, "weights.layer_axis",
               "expected one axis at which each has a layer dim of 3");
}

TEST_F(StackedTreeTest, LayersThatAreNoMultipleOfTheCycle) {
  for (int64_t layer = 0; layer < 5; ++layer) want_layer(layer, 2, 3);
  put("model.layers.layer_0.scale", stacked({0, 2}, 2, {}, 0, {2}));
  put("model.layers.layer_1.scale", stacked({1, 3}, 2, {}, 0, {2}));
  write();
  expect_error([&] { unstack(*tree_, wanted_); }, "weights.layer_cycle",
               "5 layers as a multiple of a cycle of 2, got 1 over");
}

// Case A3: a flag that contradicts the tensors is warned of, and the tensors decide.
TEST_F(StackedTreeTest, FlagsAreAdvice) {
  for (int64_t layer = 0; layer < 3; ++layer) want_layer(layer, 0, 1);
  put("model.layers.mlp.up.weight", stacked({0, 1, 2}, 0, {2, 3}, 0, {3}));
  auto log_of = [&](const TreeDemand& demand) {
    ::testing::internal::CaptureStderr();
    expect_whole(demand);
    return ::testing::internal::GetCapturedStderr();
  };
  write({{"scan_layers", "false"}});
  EXPECT_NE(log_of({}).find("says scan_layers = false, but the tensors are stacked"),
            std::string::npos);
  tree_.reset();
  write({{"scan_layers", "True"}});
  EXPECT_EQ(log_of({}), "");
  tree_.reset();
  write();
  put_file(scratch_ / "tree/config.json", R"({"scan_layers": false})");
  EXPECT_NE(log_of({}).find("config.json says scan_layers = false"), std::string::npos);
}

TEST(LayerNameTest, TheFirstNumberCountsTheLayer) {
  auto name = parse_layer_name("model.layers.3.mlp.experts.0.up.weight");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stack, "model.layers");
  EXPECT_EQ(name->layer, 3);
  EXPECT_EQ(name->leaf, "mlp.experts.0.up.weight");
  for (const char* other :
       {"model.norm.weight", "3.weight", "model.layers.x3.w", "model.layers.3"}) {
    EXPECT_FALSE(parse_layer_name(other)) << other;
  }
}

}  // namespace
}  // namespace strata::weights
