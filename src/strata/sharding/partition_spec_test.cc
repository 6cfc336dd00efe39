#include "strata/sharding/partition_spec.h"

#include <gtest/gtest.h>

#include "strata/base/error.h"
#include "strata/sharding/box.h"
#include "strata/sharding/placement.h"

namespace strata::sharding {
namespace {

using Names = std::vector<std::vector<std::string>>;

struct Form {
  const char* text;
  Names dims;
};

// One spec in every form in which others write it.
const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"PartitionSpec('fsdp', None)", {{"fsdp"}, {}}},
      {"P('fsdp', None)", {{"fsdp"}, {}}},
      {"jax.sharding.PartitionSpec('fsdp', None)", {{"fsdp"}, {}}},
      {" P( \"fsdp\" ,None, ) ", {{"fsdp"}, {}}},
      {"('fsdp', None)", {{"fsdp"}, {}}},
      {"['fsdp', None]", {{"fsdp"}, {}}},
      {"[\"fsdp\", null]", {{"fsdp"}, {}}},
      {"fsdp, None", {{"fsdp"}, {}}},
      {"#sdy.sharding<@mesh, [{\"fsdp\"}, {}]>", {{"fsdp"}, {}}},
      {"[{\"fsdp\"}, {?}]", {{"fsdp"}, {}}},
      {"#sdy.sharding<@mesh, [{\"fsdp\", ?}, {?}]>", {{"fsdp"}, {}}},
      {"P(('fsdp', 'tensor'), None)", {{"fsdp", "tensor"}, {}}},
      {"[[\"fsdp\", \"tensor\"], null]", {{"fsdp", "tensor"}, {}}},
      {"fsdp+tensor, None", {{"fsdp", "tensor"}, {}}},
      {"#sdy.sharding<@mesh, [{\"fsdp\", \"tensor\"}, {}]>", {{"fsdp", "tensor"}, {}}},
      {"P(None, 'tensor')", {{}, {"tensor"}}},
      {"P((), 'tensor')", {{}, {"tensor"}}},
      {"P('fsdp',)", {{"fsdp"}}},
      {"fsdp", {{"fsdp"}}},
      {"P()", {}},
      {"()", {}},
      {"", {}},
      {"#sdy.sharding<@mesh, []>", {}},
      {"('embed', 'mlp')", {{"embed"}, {"mlp"}}},
  };
  return all;
}

TEST(PartitionSpecs, AreReadInEveryForm) {
  for (const Form& form : forms()) {
    PartitionSpec spec = parse_partition_spec(form.text);
    EXPECT_EQ(spec.dims, form.dims) << form.text;
    EXPECT_EQ(parse_partition_spec(text_of(spec)), spec) << text_of(spec);
  }
  EXPECT_EQ(partition_spec_from_json(Json::parse(R"(["fsdp", null, ["a", "b"]])"), "x").dims,
            (Names{{"fsdp"}, {}, {"a", "b"}}));
}

TEST(PartitionSpecs, BecomeTheAxesOfDims) {
  const Mesh mesh = Mesh::parse("fsdp=2,tensor=2");
  ParamType type{DType::f32, {{.size = 8, .name = "out"}, {.size = 4, .name = "in"}}};
  auto given = [&](const char* text) {
    return text_of(with_spec(type, parse_partition_spec(text), mesh, "w"));
  };
  EXPECT_EQ(given("P('tensor', 'fsdp')"), "f32[out:8@tensor, in:4@fsdp]");
  EXPECT_EQ(given("P(('fsdp', 'tensor'))"), "f32[out:8@fsdp+tensor, in:4]");
  EXPECT_EQ(given("P('mlp', None)"), "f32[mlp:8, in:4]");  // a name that the rules know
  EXPECT_EQ(given("P()"), "f32[out:8, in:4]");
}

// Stacking knows of no spec: whatever was read, with any rank, name and position, comes back.
TEST(PartitionSpecs, StackingAndUnstackingAreInverses) {
  const Mesh mesh = Mesh::parse("fsdp=2,tensor=2");
  int rows = 0;
  for (const Form& form : forms()) {
    for (size_t rank = form.dims.size(); rank <= 3; ++rank) {
      for (bool named : {false, true}) {
        ParamType type{DType::bf16, {}};
        for (size_t i = 0; i < rank; ++i) {
          type.dims.push_back({.size = 4, .name = named ? "d" + std::to_string(i) : ""});
        }
        PartitionSpec spec = parse_partition_spec(form.text);
        ParamType given = with_spec(type, spec, mesh, "w");
        for (int64_t axis = -static_cast<int64_t>(rank) - 1; axis <= 4; ++axis) {
          for (const std::vector<std::string>& layer_axes : Names{{}, {"layers"}}) {
            Dim layer{.size = 3, .role = Role::layer, .name = "layers", .axes = layer_axes};
            ParamType stacked = insert_layer_dim(given, axis, layer, "w");
            ASSERT_EQ(stacked.rank(), given.rank() + 1);
            EXPECT_EQ(erase_layer_dim(stacked, Role::layer, "w"), given) << form.text;
            // The spec of one layer fits its stack, and leaves the stack's own dim alone.
            if (layer_axes.empty()) {
              ParamType again =
                  with_spec(insert_layer_dim(type, axis, layer, "w"), spec, mesh, "w");
              EXPECT_EQ(again, stacked) << form.text;
            }
            ++rows;
          }
        }
      }
    }
  }
  EXPECT_GT(rows, 1000);
}

// Case B1: a scale, a scalar, several axes on one dim.
TEST(PartitionSpecs, OfCaseB1) {
  const Mesh mesh = Mesh::parse("a=2,b=4");
  auto stacked = [&](const char* text, const Dims& sizes, int64_t axis, int64_t layers) {
    ParamType type =
        with_spec(plain_type(DType::f32, sizes), parse_partition_spec(text), mesh, "w");
    return insert_layer_dim(type, axis, {.size = layers, .role = Role::layer}, "w");
  };
  for (int64_t layers : {1, 2, 3, 8}) {
    for (int64_t axis : {0, 1, 2}) {
      Dims shard{8, 4};
      shard.insert(shard.begin() + axis, layers);
      EXPECT_EQ(shard_sizes(stacked("P('a', 'b')", {16, 16}, axis, layers), mesh, "w"), shard);
    }
  }
  EXPECT_EQ(shard_sizes(stacked("['b']", {16}, 0, 2), mesh, "w"), (Dims{2, 4}));
  EXPECT_EQ(shard_sizes(stacked("()", {}, 1, 2), mesh, "w"), (Dims{2}));
  EXPECT_EQ(shard_sizes(stacked("[['a', 'b']]", {16}, 0, 2), mesh, "w"), (Dims{2, 2}));
}

TEST(PartitionSpecs, ReplaceTheRulesForParametersOfAName) {
  Manifest manifest({{"layers.q.weight",
                      Kind::param,
                      {DType::f32,
                       {{.size = 4, .role = Role::layer, .name = "layers"},
                        {.size = 8, .name = "heads"},
                        {.size = 4, .name = "embed"}}}},
                     {"layers.o.weight",
                      Kind::param,
                      {DType::f32, {{.size = 4, .name = "embed"}, {.size = 8, .name = "heads"}}}}},
                    {}, {});
  PlacementOptions options{.mesh = Mesh::parse("layers=2,fsdp=2,tensor=2")};
  options.specs = {parse_spec_rule("*.q.* = P('fsdp', None)"),
                   parse_spec_rule("*.weight = embed, 'tensor'")};
  Placement placed = place(manifest, options, decoder_rules());
  EXPECT_EQ(text_of(placed.manifest.slots()[0].type),
            "f32[layers(layer):4@layers, heads:8@fsdp, embed:4]");
  EXPECT_EQ(text_of(placed.manifest.slots()[1].type), "f32[embed:4@fsdp, heads:8@tensor]");
}

}  // namespace
}  // namespace strata::sharding
