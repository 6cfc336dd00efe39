#include "strata/sharding/manifest.h"

#include <gtest/gtest.h>

namespace strata::sharding {
namespace {

Manifest sample() {
  ParamType embed{DType::bf16,
                  {{64, Role::none, "vocab", {"fsdp", "tensor"}}, {8, Role::none, "embed", {}}}};
  ParamType norm{DType::f32, {{4, Role::layer, "layers", {}}, {8, Role::none, "embed", {}}}};
  return Manifest({{"model.embed_tokens.weight", Kind::param, embed},
                   {"model.layers[0:4:1].input_layernorm.weight", Kind::param, norm},
                   {"model.rope.inv_freq", Kind::buffer, plain_type(DType::f32, {4})}},
                  {{"lm_head.weight", "model.embed_tokens.weight"}},
                  {{"model.layers", {{0, 1, 4, true}}}});
}

TEST(ManifestTest, FindsSlotsByNameAndByAlias) {
  Manifest m = sample();
  EXPECT_EQ(m.size(), 3u);
  EXPECT_EQ(m.find("model.rope.inv_freq"), 2);
  EXPECT_EQ(m.index_of("lm_head.weight"), 0);
  EXPECT_EQ(m.at("lm_head.weight").name, "model.embed_tokens.weight");
  EXPECT_EQ(m.find("lm_head"), -1);
}

TEST(ManifestTest, CountsByKind) {
  EXPECT_EQ(sample().elements(Kind::param), 64 * 8 + 4 * 8);
  EXPECT_EQ(sample().bytes(Kind::param), 2 * 64 * 8 + 4 * 4 * 8);
  EXPECT_EQ(sample().bytes(Kind::buffer), 16);
}

TEST(ManifestTest, JsonRoundTrips) {
  Manifest m = sample();
  Json json = m.to_json();
  EXPECT_EQ(Manifest::from_json(json, "m.json"), m);
  EXPECT_EQ(Manifest::from_json(parse_json(json.dump(), "m.json"), "m.json"), m);
  EXPECT_EQ(json["slots"][0]["dims"][0].dump(),
            R"({"size":64,"name":"vocab","axes":["fsdp","tensor"]})");
  EXPECT_EQ(json["slots"][2]["dims"][0].dump(), R"({"size":4})");
  EXPECT_EQ(Manifest::from_json(Manifest().to_json(), "m.json"), Manifest());
}

// Written out, so that a change of the format that would orphan old files is noticed.
TEST(ManifestTest, TheHashIsStable) {
  EXPECT_EQ(sample().hash(), "9e6cb5958a0dab7f43b8b0ad8841006871d90e00b34c73c93d580a66399e32bb");
}

TEST(ManifestTest, TheHashSeesEveryField) {
  Manifest m = sample();
  auto changed = [&](auto&& edit) {
    std::vector<Slot> slots = m.slots();
    std::vector<Tie> ties = m.ties();
    std::vector<LayerPlan> plans = m.plans();
    edit(slots, ties, plans);
    return Manifest(slots, ties, plans).hash();
  };
  EXPECT_EQ(changed([](auto&, auto&, auto&) {}), m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { s[2].name += "x"; }), m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { s[2].kind = Kind::param; }), m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { s[2].type.dtype = DType::f64; }), m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { s[2].type.dims[0].size = 5; }), m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { s[0].type.dims[1].name = "x"; }), m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { s[0].type.dims[0].axes.pop_back(); }), m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { s[1].type.dims[0].role = Role::inner_layer; }),
            m.hash());
  EXPECT_NE(changed([](auto& s, auto&, auto&) { std::swap(s[1], s[2]); }), m.hash());
  EXPECT_NE(changed([](auto&, auto& t, auto&) { t.clear(); }), m.hash());
  EXPECT_NE(changed([](auto&, auto&, auto& p) { p[0].runs[0].scanned = false; }), m.hash());
}

}  // namespace
}  // namespace strata::sharding
