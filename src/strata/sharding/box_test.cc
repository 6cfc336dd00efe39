#include "strata/sharding/box.h"

#include <gtest/gtest.h>

#include <random>

#include "strata/base/error.h"

namespace strata::sharding {
namespace {

ParamType sharded(std::vector<std::pair<int64_t, std::vector<std::string>>> dims) {
  ParamType type{DType::f32};
  for (auto& [size, axes] : dims) type.dims.push_back({size, Role::none, "", axes});
  return type;
}

TEST(BoxTest, EachDeviceHoldsItsPart) {
  Mesh mesh = Mesh::parse("a=2,b=4");
  ParamType type = sharded({{16, {"a"}}, {16, {"b"}}});
  EXPECT_EQ(shard_sizes(type, mesh, "w"), (Dims{8, 4}));
  EXPECT_EQ(shard_box(type, mesh, 0, "w"), (Box{{0, 0}, {8, 4}}));
  EXPECT_EQ(shard_box(type, mesh, 6, "w"), (Box{{8, 8}, {8, 4}}));
  EXPECT_EQ(replica_count(type, mesh, "w"), 1);
  EXPECT_EQ(shard_bytes(type, mesh, "w"), 4 * 32);
}

TEST(BoxTest, SeveralAxesOnOneDimAreTakenMajorFirst) {
  Mesh mesh = Mesh::parse("a=2,b=4");
  ParamType ab = sharded({{16, {"a", "b"}}});
  ParamType ba = sharded({{16, {"b", "a"}}});
  EXPECT_EQ(shard_box(ab, mesh, 5, "w"), (Box{{10}, {2}}));  // a=1, b=1: part 1*4+1
  EXPECT_EQ(shard_box(ba, mesh, 5, "w"), (Box{{6}, {2}}));   // part 1*2+1
}

TEST(BoxTest, ReplicatedDimsAreWhole) {
  Mesh mesh = Mesh::parse("a=2,b=4");
  ParamType type = sharded({{3, {}}, {8, {"b"}}});
  EXPECT_EQ(shard_box(type, mesh, 7, "w"), (Box{{0, 6}, {3, 2}}));
  EXPECT_EQ(replica_count(type, mesh, "w"), 2);
  EXPECT_EQ(replica_count(sharded({}), mesh, "w"), 8);
  EXPECT_EQ(shard_box(sharded({}), mesh, 3, "w"), (Box{{}, {}}));
}

// Public case B1: per-layer spec (a, b) over [16, 16], stacked L times at axis 0, 1 or 2.
TEST(BoxTest, AStackedParameterKeepsItsPerLayerShards) {
  Mesh mesh = Mesh::parse("a=2,b=4");
  ParamType per_layer = sharded({{16, {"a"}}, {16, {"b"}}});
  for (int64_t count : {1, 2, 3, 8}) {
    for (int64_t axis : {0, 1, 2}) {
      ParamType stacked =
          insert_layer_dim(per_layer, axis, {count, Role::layer, "layers", {}}, "w");
      Dims expected = {8, 4};
      expected.insert(expected.begin() + axis, count);
      EXPECT_EQ(shard_sizes(stacked, mesh, "w"), expected);
      EXPECT_EQ(shard_bytes(stacked, mesh, "w"), 4 * count * 256 / 8);
    }
  }
  Dim layer{2, Role::layer, "layers", {}};
  EXPECT_EQ(shard_sizes(insert_layer_dim(sharded({{16, {"b"}}}), 0, layer, "w"), mesh, "w"),
            (Dims{2, 4}));
  EXPECT_EQ(shard_sizes(insert_layer_dim(sharded({}), 0, layer, "w"), mesh, "w"), (Dims{2}));
  EXPECT_EQ(shard_sizes(insert_layer_dim(sharded({{16, {"a", "b"}}}), 0, layer, "w"), mesh, "w"),
            (Dims{2, 2}));
}

TEST(BoxTest, Intersections) {
  EXPECT_EQ(intersect({{0, 0}, {4, 4}}, {{2, 1}, {4, 2}}), (Box{{2, 1}, {2, 2}}));
  EXPECT_FALSE(intersect({{0}, {4}}, {{4}, {4}}).has_value());
  EXPECT_FALSE(intersect({{0}, {0}}, {{0}, {4}}).has_value());
  EXPECT_EQ(intersect({{}, {}}, {{}, {}}), (Box{{}, {}}));
  EXPECT_EQ(text_of(Box{{2, 0}, {2, 8}}), "[2:4, 0:8]");
}

// The boxes of all devices cover every element the same number of times.
TEST(BoxTest, BoxesTileTheArray) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  const std::vector<std::string> names = {"a", "b", "c"};
  auto below = [&](int64_t bound) { return static_cast<int64_t>(random()) % bound; };
  for (int trial = 0; trial < 200; ++trial) {
    Mesh mesh({{"a", 1 + below(3)}, {"b", 1 + below(3)}, {"c", 1 + below(2)}});
    ParamType type = sharded({{0, {}}, {0, {}}});
    for (const std::string& axis : names) {
      if (below(3) > 0) type.dims[static_cast<size_t>(below(2))].axes.push_back(axis);
    }
    for (Dim& dim : type.dims) dim.size = mesh.axes_size(dim.axes) * (1 + below(3));
    std::vector<int64_t> covered(static_cast<size_t>(type.elements()));
    for (int64_t p = 0; p < mesh.size(); ++p) {
      Box box = shard_box(type, mesh, p, "w");
      for (int64_t i = 0; i < box.elements(); ++i) {
        int64_t row = box.start[0] + i / box.size[1];
        int64_t column = box.start[1] + i % box.size[1];
        ++covered[static_cast<size_t>(row * type.dims[1].size + column)];
      }
    }
    int64_t replicas = replica_count(type, mesh, "w");
    for (int64_t n : covered) ASSERT_EQ(n, replicas) << mesh.text() << " " << text_of(type);
  }
}

}  // namespace
}  // namespace strata::sharding
