#include "strata/sharding/layer_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace strata::sharding {
namespace {

// Three dense layers, then 3 linear + 1 full repeated six times, then a tail of two.
LayerPlan hybrid() {
  return {"model.layers", {{0, 1, 3, false}, {3, 4, 6, true}, {27, 1, 2, false}}};
}

TEST(LayerPlanTest, EveryLayerHasOnePlaceInOrder) {
  LayerPlan plan = hybrid();
  check_plan(plan);
  ASSERT_EQ(plan.count(), 29);
  for (int64_t layer = 0; layer < 29; ++layer) {
    EXPECT_EQ(plan.layer_at(plan.place(layer)), layer);
  }
  EXPECT_EQ(plan.place(2), (LayerPlace{0, 2, 0}));
  EXPECT_EQ(plan.place(10), (LayerPlace{1, 1, 3}));
  EXPECT_EQ(plan.place(28), (LayerPlace{2, 1, 0}));
}

TEST(LayerPlanTest, StackedNamesListTheirLayers) {
  LayerPlan plan = hybrid();
  std::string name = plan.stacked_name(1, 3, "mlp.up_proj.weight");
  EXPECT_EQ(name, "model.layers[6:27:4].mlp.up_proj.weight");
  std::optional<StackedName> parts = parse_stacked_name(name);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->stack, "model.layers");
  EXPECT_EQ(parts->leaf, "mlp.up_proj.weight");
  std::vector<std::string> names = parts->layer_names();
  ASSERT_EQ(names.size(), 6u);
  EXPECT_EQ(names.front(), "model.layers.6.mlp.up_proj.weight");
  EXPECT_EQ(names.back(), "model.layers.26.mlp.up_proj.weight");
  EXPECT_EQ(names[1], plan.layer_name(10, "mlp.up_proj.weight"));
}

TEST(LayerPlanTest, TheStackedNamesOfARunCoverItsLayersOnce) {
  LayerPlan plan = hybrid();
  std::multiset<std::string> names;
  for (int64_t slot = 0; slot < 4; ++slot) {
    for (const std::string& n :
         parse_stacked_name(plan.stacked_name(1, slot, "w"))->layer_names()) {
      names.insert(n);
    }
  }
  for (int64_t layer = 3; layer < 27; ++layer) {
    EXPECT_EQ(names.count(plan.layer_name(layer, "w")), 1u);
  }
  EXPECT_EQ(names.size(), 24u);
}

TEST(LayerPlanTest, OtherNamesAreNoStackedNames) {
  for (const char* name :
       {"model.layers.3.w", "model.layers[0:4].w", "model.layers[0:4:0].w", "model.layers[4:4:1].w",
        "model.layers[00:4:1].w", "model.layers[0:4:1]", "[0:4:1].w", "a[0:4:1].", "a[-1:4:1].w",
        "a[0:99999999999999999999:1].w", ""}) {
    EXPECT_FALSE(parse_stacked_name(name).has_value()) << name;
  }
}

TEST(LayerPlanTest, TextShowsTheRuns) {
  EXPECT_EQ(hybrid().text(), "model.layers: 0-2 unrolled, 3-26 scanned 4 x 6, 27-28 unrolled");
  EXPECT_EQ((LayerPlan{"s", {{0, 1, 1, true}}}).text(), "s: 0 scanned 1 x 1");
  EXPECT_EQ((LayerPlan{"s", {}}).text(), "s: no layers");
  EXPECT_EQ((LayerPlan{"s", {}}).count(), 0);
}

}  // namespace
}  // namespace strata::sharding
