#include "strata/optim/groups.h"

#include "strata/optim/step_for_test.h"

namespace strata::optim {
namespace {

using sharding::Manifest;
using sharding::ParamType;
using sharding::Role;

ParamType stacked(const Dims& sizes) {
  ParamType type = f32_type(sizes);
  type.dims[0].role = Role::layer;
  return type;
}

TEST(Groups, ByDefaultOnlyMatricesDecay) {
  Manifest manifest = manifest_of({{"embed.weight", f32_type({7, 4})},
                                   {"model.layers[0:2:1].norm.weight", stacked({2, 4})},
                                   {"model.layers[0:2:1].mlp.weight", stacked({2, 4, 4})},
                                   {"model.layers[0:2:1].scale", stacked({2})},
                                   {"norm.weight", f32_type({4})}});
  Groups groups(manifest, default_groups());
  EXPECT_EQ(groups.group_of(manifest, "embed.weight").name, "decay");
  EXPECT_EQ(groups.group_of(manifest, "model.layers[0:2:1].norm.weight").name, "no_decay");
  EXPECT_EQ(groups.group_of(manifest, "model.layers[0:2:1].mlp.weight").name, "decay");
  EXPECT_EQ(groups.group_of(manifest, "model.layers[0:2:1].scale").name, "no_decay");
  EXPECT_EQ(groups.group_of(manifest, "norm.weight").weight_decay, 0.0);
  EXPECT_EQ(groups.text(),
            "decay: 2 parameters, 60 elements, lr x 1, weight decay of the optimiser\n"
            "no_decay: 3 parameters, 14 elements, lr x 1, weight decay 0\n");
}

TEST(Groups, RulesSpeakOfUnstackedNames) {
  GroupsConfig config = {
      .groups = {{.name = "frozen", .frozen = true}, {.name = "rest"}},
      .rules = {{.group = "frozen", .glob = "model.layers.?.mlp.*"}, {.group = "rest"}},
      .first_match_wins = true};
  Manifest scanned = manifest_of({{"model.layers[0:4:2].mlp.weight", stacked({2, 4, 4})},
                                  {"model.layers[1:4:2].attn.weight", stacked({2, 4, 4})}});
  Manifest unrolled = manifest_of({{"model.layers.0.mlp.weight", f32_type({4, 4})},
                                   {"model.layers.1.attn.weight", f32_type({4, 4})}});
  Groups groups(scanned, config);
  ASSERT_EQ(groups.parameters().size(), 1u);
  EXPECT_EQ(groups.parameters()[0].name, "model.layers[1:4:2].attn.weight");
  EXPECT_EQ(groups.groups()[groups.parameters()[0].group].name, "rest");
  EXPECT_EQ(Groups(unrolled, config).parameters()[0].name, "model.layers.1.attn.weight");
  EXPECT_NE(groups.text().find("frozen: 1 parameters, 32 elements, frozen\n"), std::string::npos);
}

TEST(Groups, ForMuonMatricesOfLayersAreApart) {
  ParamType head = f32_type({9, 4}), experts = stacked({2, 3, 4, 5}), router = stacked({2, 3, 4});
  head.dims[0].name = "vocab";
  experts.dims[1].name = router.dims[1].name = "experts";
  Manifest manifest = manifest_of({{"embed.weight", head},
                                   {"model.layers[0:2:1].mlp.weight", stacked({2, 4, 4})},
                                   {"model.layers[0:2:1].experts.weight", experts},
                                   {"model.layers[0:2:1].router.weight", router},
                                   {"model.layers[0:2:1].conv.weight", stacked({2, 4, 1, 4})},
                                   {"model.layers[0:2:1].norm.weight", stacked({2, 4})},
                                   {"scale", f32_type({})}});
  Groups groups(manifest, muon_groups(0.1));
  EXPECT_EQ(groups.text(),
            "muon: 2 parameters, 152 elements, lr x 1, weight decay of the optimiser\n"
            "adamw: 3 parameters, 92 elements, lr x 0.1, weight decay of the optimiser, "
            "elementwise\n"
            "no_decay: 2 parameters, 9 elements, lr x 0.1, weight decay 0, elementwise\n");
  for (const Parameter& p : groups.parameters()) {
    bool muon = p.name.find("mlp") != p.name.npos || p.name.find("experts") != p.name.npos;
    EXPECT_EQ(p.elementwise, !muon) << p.name;
  }
}

TEST(Groups, BuffersAreInNoGroupAndTiesFollowTheirOwner) {
  Manifest manifest({{"w", sharding::Kind::param, f32_type({2, 2})},
                     {"table", sharding::Kind::buffer, f32_type({2})}},
                    {{"head.weight", "w"}}, {});
  Groups groups(manifest, default_groups());
  EXPECT_EQ(groups.parameters().size(), 1u);
  EXPECT_EQ(groups.group_of(manifest, "head.weight").name, "decay");
}

TEST(Groups, TextTellsWhatAGroupSets) {
  Manifest manifest = manifest_of({{"w", f32_type({2, 2})}});
  GroupsConfig config =
      one_group({.name = "g", .lr_multiplier = 0.5, .weight_decay = 0.1, .clip_norm = 2});
  EXPECT_EQ(Groups(manifest, config).text(),
            "g: 1 parameters, 4 elements, lr x 0.5, weight decay 0.1, clipped at 2 by its own "
            "norm\n");
}

TEST(Groups, AdaptersAreAKindOfTheirOwn) {
  Manifest plain = manifest_of({{"q.weight", f32_type({2, 2})}});
  std::vector<sharding::Slot> slots = plain.slots();
  slots.push_back({"q.lora_A.weight", sharding::Kind::adapter, f32_type({3, 2})});
  slots.push_back({"q.scale", sharding::Kind::buffer, f32_type({2})});
  Manifest manifest(slots, {}, {});
  EXPECT_FALSE(has_adapters(plain));
  EXPECT_TRUE(has_adapters(manifest));
  Groups groups(manifest, adapter_groups());
  ASSERT_EQ(groups.parameters().size(), 1u);
  EXPECT_EQ(groups.parameters()[0].name, "q.lora_A.weight");
  EXPECT_TRUE(groups.group_of(manifest, "q.weight").frozen);
  EXPECT_EQ(groups.text(),
            "adapter: 1 parameters, 6 elements, lr x 1, weight decay of the optimiser\n"
            "frozen: 1 parameters, 4 elements, frozen\n");
}

// Two rules of one group do not contradict each other.
TEST(Groups, RulesOfOneGroupMayOverlap) {
  Manifest manifest = manifest_of({{"w", f32_type({2, 2})}});
  GroupsConfig config = {.groups = {{.name = "g"}},
                         .rules = {{.group = "g", .glob = "w"}, {.group = "g"}}};
  EXPECT_EQ(Groups(manifest, config).parameters().size(), 1u);
}

}  // namespace
}  // namespace strata::optim
