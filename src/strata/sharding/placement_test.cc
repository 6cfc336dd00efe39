#include "strata/sharding/placement.h"

#include <gtest/gtest.h>

#include "strata/base/error.h"
#include "strata/sharding/shardy.h"

namespace strata::sharding {
namespace {

ParamType weight(int64_t out, int64_t in) {
  return {DType::f32, {{.size = out, .name = "mlp"}, {.size = in, .name = "embed"}}};
}

Manifest manifest() {
  return Manifest({{"up", Kind::param, weight(8, 6)}, {"odd", Kind::param, weight(7, 6)}}, {}, {});
}

TEST(Placement, FamilyRulesKeepWhatTheMeshHas) {
  Placement p = place(manifest(), {.mesh = Mesh::parse("fsdp=2,tensor=2")}, decoder_rules());
  EXPECT_TRUE(p.partitioned());
  EXPECT_EQ(text_of(p.manifest.at("up").type), "f32[mlp:8@tensor, embed:6@fsdp]");
  EXPECT_EQ(text_of(p.manifest.at("odd").type), "f32[mlp:7, embed:6@fsdp]");
  ASSERT_EQ(p.reasons.size(), 1u);
  EXPECT_EQ(p.reasons[0], "odd, dim 0 'mlp' (7): tensor (2) does not divide it; replicated");
  Placement data = place(manifest(), {.mesh = Mesh::parse("data=2")}, decoder_rules());
  EXPECT_EQ(text_of(data.manifest.at("up").type), "f32[mlp:8, embed:6]");
  EXPECT_TRUE(data.reasons.empty());
}

TEST(Placement, GivenRulesReplaceTheFamilys) {
  PlacementOptions o{.mesh = Mesh::parse("fsdp=2,tensor=2"), .rules = {parse_rule("mlp = fsdp")}};
  Placement p = place(manifest(), o, decoder_rules());
  EXPECT_EQ(text_of(p.manifest.at("up").type), "f32[mlp:8@fsdp, embed:6]");
  o.rules = {parse_rule("mlp = expert")};
  try {
    place(manifest(), o, decoder_rules());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::not_found);
  }
}

TEST(Placement, AxesWithoutARuleAreRefused) {
  PlacementOptions o{.mesh = Mesh::parse("tensr=2")};
  try {
    place(manifest(), o, decoder_rules());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "sharding.axis_without_rule");
    EXPECT_NE(std::string(e.what()).find("Did you mean 'tensor'?"), std::string::npos) << e.what();
  }
  o.rules = {parse_rule("mlp = tensr")};
  EXPECT_EQ(text_of(place(manifest(), o, decoder_rules()).manifest.at("up").type),
            "f32[mlp:8@tensr, embed:6]");
  o.rules = {};
  o.specs = {parse_spec_rule("up = P(None, 'tensr')")};
  EXPECT_EQ(text_of(place(manifest(), o, decoder_rules()).manifest.at("up").type),
            "f32[mlp:8, embed:6@tensr]");
  EXPECT_NO_THROW(place(manifest(), {.mesh = Mesh::parse("spare=1,fsdp=2")}, decoder_rules()));
}

TEST(Placement, StrictRefusesReplication) {
  PlacementOptions o{.mesh = Mesh::parse("tensor=2"), .strict = true};
  try {
    place(manifest(), o, decoder_rules());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "sharding.strict");
  }
}

TEST(Placement, BatchesTakeDataAndFsdpAndSayOnceWhyNot) {
  Placement p = place(manifest(), {.mesh = Mesh::parse("data=2,fsdp=2")}, decoder_rules());
  ParamType ids{DType::i32, {{.size = 4, .name = "batch"}, {.size = 9, .name = "tokens"}}};
  std::vector<std::string> reasons;
  EXPECT_EQ(text_of(place_array(p, ids, "ids", reasons)), "i32[batch:4@data+fsdp, 9]");
  ids.dims[0].size = 6;
  EXPECT_EQ(text_of(place_array(p, ids, "ids", reasons)), "i32[batch:6@fsdp, 9]");
  EXPECT_TRUE(reasons.empty());
  ids.dims[0].size = 3;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(text_of(place_array(p, ids, "ids", reasons)), "i32[batch:3, 9]");
  }
  ASSERT_EQ(reasons.size(), 1u);
}

TEST(Shardy, SpellsMeshesAndLayouts) {
  EXPECT_EQ(shardy_mesh(Mesh::parse("fsdp=2,tensor=4")),
            "sdy.mesh @mesh = <[\"fsdp\"=2, \"tensor\"=4]>");
  EXPECT_EQ(shardy_sharding({{"fsdp", "tensor"}, {}}),
            "#sdy.sharding<@mesh, [{\"fsdp\", \"tensor\"}, {}]>");
  EXPECT_EQ(shardy_sharding({}), "#sdy.sharding<@mesh, []>");
}

}  // namespace
}  // namespace strata::sharding
