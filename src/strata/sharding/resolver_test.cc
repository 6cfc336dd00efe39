#include "strata/sharding/resolver.h"

#include <gtest/gtest.h>

namespace strata::sharding {
namespace {

using Axes = std::vector<std::string>;

ParamType named(std::vector<std::pair<std::string, int64_t>> dims) {
  ParamType type{DType::f32};
  for (const auto& [name, size] : dims) type.dims.push_back({size, Role::none, name, {}});
  return type;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      parse_rule("embed = fsdp"), parse_rule("mlp = tensor, fsdp"),
      parse_rule("vocab = fsdp+tensor, tensor"), parse_rule("head_dim =")};
  return kRules;
}

TEST(ResolverTest, RulesParse) {
  EXPECT_EQ(parse_rule(" vocab=fsdp+tensor , tensor"),
            (Rule{"vocab", {{"fsdp", "tensor"}, {"tensor"}}}));
  EXPECT_EQ(parse_rule("x ="), (Rule{"x", {}}));
}

TEST(ResolverTest, TheFirstCandidateThatFitsIsTaken) {
  Mesh mesh = Mesh::parse("fsdp=2,tensor=2");
  Resolved r = resolve(named({{"mlp", 6}, {"embed", 8}}), rules(), mesh, "w", false);
  EXPECT_EQ(r.type.dims[0].axes, Axes{"tensor"});
  EXPECT_EQ(r.type.dims[1].axes, Axes{"fsdp"});
  EXPECT_TRUE(r.reasons.empty());
  EXPECT_EQ(resolve(named({{"vocab", 8}}), rules(), mesh, "w", true).type.dims[0].axes,
            (Axes{"fsdp", "tensor"}));
  EXPECT_EQ(resolve(named({{"vocab", 6}}), rules(), mesh, "w", true).type.dims[0].axes,
            Axes{"tensor"});
}

TEST(ResolverTest, WhatDoesNotFitIsReplicatedWithItsReasons) {
  Mesh mesh = Mesh::parse("fsdp=2,tensor=2");
  Resolved r = resolve(named({{"embed", 8}, {"embed", 8}, {"mlp", 7}}), rules(), mesh, "w", false);
  EXPECT_EQ(r.type.dims[0].axes, Axes{"fsdp"});
  EXPECT_TRUE(r.type.dims[1].axes.empty());
  EXPECT_TRUE(r.type.dims[2].axes.empty());
  EXPECT_EQ(r.reasons,
            (std::vector<std::string>{
                "w, dim 1 'embed' (8): fsdp is taken by another dim; replicated",
                "w, dim 2 'mlp' (7): tensor (2) does not divide it; fsdp is taken by another dim; "
                "replicated"}));
}

TEST(ResolverTest, OnPurposeAndUnnamedNeedNoReason) {
  Mesh mesh = Mesh::parse("fsdp=2,tensor=2");
  Resolved r = resolve(named({{"head_dim", 8}, {"", 8}}), rules(), mesh, "w", true);
  EXPECT_TRUE(r.type.dims[0].axes.empty());
  EXPECT_TRUE(r.type.dims[1].axes.empty());
}

TEST(ResolverTest, ADimWithoutElementsIsReplicated) {
  Resolved r = resolve(named({{"embed", 0}}), rules(), Mesh::parse("fsdp=2,tensor=2"), "w", false);
  EXPECT_TRUE(r.type.dims[0].axes.empty());
  EXPECT_EQ(r.reasons.size(), 1u);
}

TEST(ResolverTest, AxesThatADimHasAlreadyAreKept) {
  ParamType type = named({{"embed", 8}, {"mlp", 8}});
  type.dims[1].axes = {"fsdp"};
  Resolved r = resolve(type, rules(), Mesh::parse("fsdp=2,tensor=2"), "w", false);
  EXPECT_TRUE(r.type.dims[0].axes.empty());
  EXPECT_EQ(r.type.dims[1].axes, Axes{"fsdp"});
}

TEST(ResolverTest, ALayerDimIsShardedOnlyByARuleOfItsOwn) {
  Mesh mesh = Mesh::parse("layers=2,fsdp=2,tensor=2");
  Dim layer{4, Role::layer, "layers", {}};
  ParamType type = insert_layer_dim(named({{"embed", 8}}), 0, layer, "w");
  EXPECT_TRUE(resolve(type, rules(), mesh, "w", true).type.dims[0].axes.empty());
  std::vector<Rule> with_layers = rules();
  with_layers.push_back(parse_rule("layers = layers"));
  EXPECT_EQ(resolve(type, with_layers, mesh, "w", true).type.dims[0].axes, Axes{"layers"});
  type.dims[0].size = 3;
  Resolved odd = resolve(type, with_layers, mesh, "w", false);
  EXPECT_TRUE(odd.type.dims[0].axes.empty());
  EXPECT_EQ(odd.reasons.size(), 1u);
}

TEST(ResolverTest, AWholeManifest) {
  Manifest manifest(
      {{"a", Kind::param, named({{"embed", 8}})}, {"b", Kind::buffer, named({{"embed", 7}})}},
      {{"c", "a"}}, {});
  ResolvedManifest r = resolve(manifest, rules(), Mesh::parse("fsdp=2,tensor=2"), false);
  EXPECT_EQ(r.manifest.at("c").type.dims[0].axes, Axes{"fsdp"});
  EXPECT_TRUE(r.manifest.at("b").type.dims[0].axes.empty());
  EXPECT_EQ(r.reasons.size(), 1u);
  EXPECT_EQ(r.manifest.ties(), manifest.ties());
}

}  // namespace
}  // namespace strata::sharding
