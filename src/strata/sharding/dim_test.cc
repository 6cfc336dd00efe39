#include "strata/sharding/dim.h"

#include <gtest/gtest.h>

#include "strata/base/error.h"

namespace strata::sharding {
namespace {

Dim layers(int64_t count) { return {count, Role::layer, "layers", {}}; }

TEST(DimTest, TypesKnowTheirSizesAndTheirText) {
  ParamType t{DType::bf16, {layers(24), {576, Role::none, "embed", {"fsdp"}}, {10, {}, "", {}}}};
  EXPECT_EQ(t.sizes(), (Dims{24, 576, 10}));
  EXPECT_EQ(t.elements(), 24 * 5760);
  EXPECT_EQ(t.bytes(), 2 * 24 * 5760);
  EXPECT_EQ(t.position_of(Role::layer), 0);
  EXPECT_FALSE(t.position_of(Role::inner_layer).has_value());
  EXPECT_EQ(text_of(t), "bf16[layers(layer):24, embed:576@fsdp, 10]");
  EXPECT_EQ(text_of(plain_type(DType::f32, {})), "f32[]");
}

// Public case A1: leaves of rank 0 to 3 (one empty, one integer) stacked three times at axis 0, 1
// and 2. An axis beyond the rank is clamped to it; unstacking is the exact inverse.
TEST(DimTest, StackingWorksForEveryRankAndAxis) {
  struct Row {
    Dims sizes;
    int64_t axis;
    int64_t used;
    Dims stacked;
  };
  const std::vector<Row> rows = {
      {{}, 0, 0, {3}},
      {{}, 1, 0, {3}},
      {{}, 2, 0, {3}},
      {{2}, 0, 0, {3, 2}},
      {{2}, 1, 1, {2, 3}},
      {{2}, 2, 1, {2, 3}},
      {{2, 3}, 0, 0, {3, 2, 3}},
      {{2, 3}, 1, 1, {2, 3, 3}},
      {{2, 3}, 2, 2, {2, 3, 3}},
      {{2, 3, 2}, 1, 1, {2, 3, 3, 2}},
      {{2, 3, 2}, 2, 2, {2, 3, 3, 2}},
      {{0, 2}, 1, 1, {0, 3, 2}},
      {{2, 3}, -1, 2, {2, 3, 3}},
      {{2, 3}, -3, 0, {3, 2, 3}},
  };
  for (const Row& row : rows) {
    ParamType type = plain_type(DType::i32, row.sizes);
    EXPECT_EQ(normalised_stack_axis(row.axis, type.rank(), "w"), row.used);
    ParamType stacked = insert_layer_dim(type, row.axis, layers(3), "w");
    EXPECT_EQ(stacked.sizes(), row.stacked);
    EXPECT_EQ(stacked.position_of(Role::layer), row.used);
    EXPECT_EQ(stacked.dtype, DType::i32);
    EXPECT_EQ(erase_layer_dim(stacked, Role::layer, "w"), type);
  }
}

TEST(DimTest, StackingKeepsNamesAndMeshAxes) {
  ParamType type{DType::f32, {{4, Role::none, "embed", {"a", "b"}}, {6, Role::none, "", {}}}};
  for (int64_t axis : {0, 1, 2}) {
    ParamType stacked = insert_layer_dim(type, axis, layers(5), "w");
    EXPECT_EQ(stacked.dims[static_cast<size_t>(axis)], layers(5));
    EXPECT_EQ(erase_layer_dim(stacked, Role::layer, "w"), type);
  }
}

TEST(DimTest, ANestedStackHasBothRoles) {
  ParamType type = plain_type(DType::f32, {2});
  ParamType inner = insert_layer_dim(type, 0, {3, Role::inner_layer, "inner", {}}, "w");
  ParamType outer = insert_layer_dim(inner, 0, layers(4), "w");
  EXPECT_EQ(outer.sizes(), (Dims{4, 3, 2}));
  EXPECT_EQ(erase_layer_dim(outer, Role::layer, "w"), inner);
  EXPECT_EQ(erase_layer_dim(outer, Role::inner_layer, "w").sizes(), (Dims{4, 2}));
}

TEST(DimTest, RolesRoundTripThroughTheirNames) {
  for (Role r : {Role::none, Role::layer, Role::inner_layer}) EXPECT_EQ(parse_role(name_of(r)), r);
}

}  // namespace
}  // namespace strata::sharding
