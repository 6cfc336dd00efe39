#include "strata/sharding/mesh.h"

#include <gtest/gtest.h>

namespace strata::sharding {
namespace {

TEST(MeshTest, ParsesAndPrints) {
  Mesh mesh = Mesh::parse(" layers=2, fsdp = 2,tensor=3");
  EXPECT_EQ(mesh.size(), 12);
  EXPECT_EQ(mesh.text(), "layers=2,fsdp=2,tensor=3");
  EXPECT_EQ(Mesh::parse(mesh.text()), mesh);
  EXPECT_TRUE(mesh.has("fsdp"));
  EXPECT_FALSE(mesh.has("data"));
  EXPECT_EQ(mesh.axis_size("tensor"), 3);
  EXPECT_EQ(mesh.axes_size({"layers", "tensor"}), 6);
  EXPECT_EQ(mesh.axes_size({}), 1);
}

TEST(MeshTest, WithoutAxesItIsOneDevice) {
  EXPECT_EQ(Mesh().size(), 1);
  EXPECT_EQ(Mesh::parse("  "), Mesh());
  EXPECT_TRUE(Mesh().coordinates(0).empty());
}

TEST(MeshTest, TheLastAxisChangesFastest) {
  Mesh mesh = Mesh::parse("a=2,b=3");
  EXPECT_EQ(mesh.coordinates(0), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(mesh.coordinates(1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(mesh.coordinates(5), (std::vector<int64_t>{1, 2}));
}

TEST(MeshTest, DeviceOrderIsKept) {
  Mesh mesh({{"a", 2}, {"b", 2}}, {3, 1, 2, 0});
  EXPECT_EQ(mesh.device_ids(), (std::vector<int64_t>{3, 1, 2, 0}));
  EXPECT_EQ(Mesh::parse("a=2,b=2").device_ids(), (std::vector<int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace strata::sharding
