// Types of optimiser state: what follows from a stacked parameter's type, and what ZeRO makes of
// it.
#include "strata/optim/adafactor.h"
#include "strata/optim/adamw.h"
#include "strata/optim/lion.h"
#include "strata/optim/muon.h"
#include "strata/optim/step_for_test.h"
#include "strata/optim/zero.h"
#include "strata/sharding/box.h"

namespace strata::optim {
namespace {

using sharding::Dim;
using sharding::Mesh;
using sharding::ParamType;
using sharding::Role;
using sharding::shard_sizes;

const Mesh& case_mesh() {
  static const Mesh mesh = Mesh::parse("a=2,b=4");
  return mesh;
}

ParamType stack(const ParamType& type, int64_t layers, int64_t axis) {
  return sharding::insert_layer_dim(type, axis, {.size = layers, .role = Role::layer}, "w");
}

ParamType sharded(const Dims& sizes, const std::vector<std::vector<std::string>>& axes) {
  ParamType type = f32_type(sizes);
  for (size_t i = 0; i < axes.size(); ++i) type.dims[i].axes = axes[i];
  return type;
}

std::vector<std::vector<std::string>> axes_of(const ParamType& type) {
  std::vector<std::vector<std::string>> axes;
  for (const Dim& d : type.dims) axes.push_back(d.axes);
  return axes;
}

std::vector<SlotSpec> slots_for(const std::shared_ptr<const Optimizer>& optimizer,
                                const ParamType& type, int64_t layers = 2) {
  auto manifest = manifest_of({{"layers[0:" + std::to_string(layers) + ":1].w", type}});
  return simple_plan(manifest, optimizer, 1).slots();
}

// Case B1: [16, 16] a layer, split over (a, b), on 2 x 4 devices.
TEST(SlotLayout, StackedMomentsCarryTheParametersAxes) {
  for (int64_t layers : {1, 2, 3, 8}) {
    for (int64_t axis : {0, 1, 2}) {
      SCOPED_TRACE(::testing::Message() << layers << " layers at axis " << axis);
      ParamType type = stack(sharded({16, 16}, {{"a"}, {"b"}}), layers, axis);
      std::vector<std::vector<std::string>> spec = {{"a"}, {"b"}};
      Dims shard = {8, 4};
      spec.insert(spec.begin() + axis, std::vector<std::string>{});
      shard.insert(shard.begin() + axis, layers);
      int64_t bytes = 0;
      std::vector<SlotSpec> slots = slots_for(make_adamw(), type, layers);
      ASSERT_EQ(slots.size(), 2u);
      for (const SlotSpec& slot : slots) {
        EXPECT_EQ(slot.type, type);
        EXPECT_EQ(axes_of(slot.type), spec);
        EXPECT_EQ(shard_sizes(slot.type, case_mesh(), slot.name), shard);
        bytes += sharding::shard_bytes(slot.type, case_mesh(), slot.name);
      }
      EXPECT_EQ(bytes, 2 * 4 * layers * 16 * 16 / 8);
    }
  }
}

// Case B1, other ranks, and the wrong layout as a control.
TEST(SlotLayout, StackedMomentsOfOtherRanks) {
  auto shard = [](const ParamType& type) {
    SlotSpec slot = slots_for(make_lion(), type).at(0);
    return shard_sizes(slot.type, case_mesh(), slot.name);
  };
  EXPECT_EQ(shard(stack(sharded({16}, {{"b"}}), 2, 0)), (Dims{2, 4}));
  EXPECT_EQ(shard(stack(f32_type({}), 2, 0)), (Dims{2}));
  EXPECT_EQ(shard(stack(sharded({16}, {{"a", "b"}}), 2, 0)), (Dims{2, 2}));
  EXPECT_EQ(shard(sharded({2, 16, 16}, {{"a"}, {"b"}})), (Dims{1, 4, 16}));
}

// Case B1: rows keep the axes of the first dim, columns those of the second.
TEST(SlotLayout, FactoredMomentsKeepTheAxesOfTheDimThatStays) {
  ParamType type = stack(sharded({16, 16}, {{"a"}, {"b"}}), 2, 0);
  std::vector<SlotSpec> slots = slots_for(make_adafactor({.min_factored = 16}), type);
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(axes_of(slots[0].type), (std::vector<std::vector<std::string>>{{}, {"a"}}));
  EXPECT_EQ(axes_of(slots[1].type), (std::vector<std::vector<std::string>>{{}, {"b"}}));
  EXPECT_EQ(slots[0].derivation, (Derivation{Derivation::Kind::reduced, {2}}));
  EXPECT_EQ(shard_sizes(slots[0].type, case_mesh(), "row"), (Dims{2, 8}));
  EXPECT_EQ(shard_sizes(slots[1].type, case_mesh(), "col"), (Dims{2, 4}));
}

std::string split_text(const ParamType& type, const std::vector<std::string>& axes,
                       const std::string& mesh, SplitFirst first = SplitFirst::array) {
  SplitSlots split =
      split_slots({{.name = "m/w", .parameter = 0, .type = type}}, axes, Mesh::parse(mesh), first);
  std::string text = sharding::text_of(split.slots.at(0).type);
  for (const std::string& reason : split.reasons) text += " | " + reason;
  return text;
}

TEST(Zero, SplitsTheLargestDimThatDivides) {
  EXPECT_EQ(split_text(f32_type({6, 8}), {"data"}, "data=2"), "f32[6, 8@data]");
  EXPECT_EQ(split_text(f32_type({8, 8}), {"data"}, "data=2"), "f32[8@data, 8]");
  EXPECT_EQ(split_text(f32_type({6, 9}), {"data"}, "data=2"), "f32[6@data, 9]");
  // An axis is appended to those that are there, and the dim counts by what is left of it.
  EXPECT_EQ(split_text(sharded({16, 6}, {{"tensor"}}), {"data"}, "data=2,tensor=2"),
            "f32[16@tensor+data, 6]");
  EXPECT_EQ(split_text(sharded({16, 6}, {{"tensor"}}), {"data"}, "data=2,tensor=4"),
            "f32[16@tensor, 6@data]");
  EXPECT_EQ(split_text(f32_type({8, 6}), {"data", "fsdp"}, "data=2,fsdp=3"), "f32[8@data, 6@fsdp]");
  EXPECT_EQ(split_text(f32_type({24, 6}), {"data", "fsdp"}, "data=2,fsdp=3"),
            "f32[24@data+fsdp, 6]");
}

TEST(Zero, LeavesWhatItHasAlreadyAndAxesOfOneDevice) {
  EXPECT_EQ(split_text(sharded({8, 6}, {{}, {"fsdp"}}), {"data", "fsdp"}, "data=1,fsdp=3"),
            "f32[8, 6@fsdp]");
  EXPECT_EQ(split_text(f32_type({8}), {}, "data=2"), "f32[8]");
}

TEST(Zero, LayersComeLastOrFirst) {
  ParamType type = stack(f32_type({6, 5}), 8, 1);
  EXPECT_EQ(split_text(type, {"data"}, "data=2"), "f32[6@data, (layer):8, 5]");
  EXPECT_EQ(split_text(type, {"data"}, "data=4"), "f32[6, (layer):8@data, 5]");
  EXPECT_EQ(split_text(type, {"data"}, "data=2", SplitFirst::layers), "f32[6, (layer):8@data, 5]");
  EXPECT_EQ(split_text(type, {"data"}, "data=3", SplitFirst::layers), "f32[6@data, (layer):8, 5]");
  ParamType experts = f32_type({4, 16, 16});
  experts.dims[0].name = "experts";
  EXPECT_EQ(split_text(experts, {"data"}, "data=2", SplitFirst::layers),
            "f32[experts:4@data, 16, 16]");
}

TEST(Zero, SaysWhyNothingIsSplit) {
  EXPECT_EQ(split_text(f32_type({7, 9}), {"data"}, "data=2"),
            "f32[7, 9] | m/w, f32[7, 9]: no dim is divisible by data (2); replicated over it");
  EXPECT_EQ(split_text(f32_type({}), {"data"}, "data=2"), "f32[]");
  EXPECT_EQ(split_text(f32_type({0, 3}), {"data"}, "data=2"),
            "f32[0, 3] | m/w, f32[0, 3]: no dim is divisible by data (2); replicated over it");
}

TEST(Zero, GradientsAndMomentsMatchAndParametersStay) {
  ParamType type = stack(sharded({6, 8}, {{}, {"tensor"}}), 3, 0);
  auto manifest = manifest_of({{"layers[0:3:1].w", type}, {"b", f32_type({5})}});
  UpdatePlan plan = simple_plan(manifest, make_adamw(), 1);
  Mesh mesh = Mesh::parse("data=2,tensor=2");
  EXPECT_EQ(zero_axes(mesh), (std::vector<std::string>{"data"}));
  ZeroPlan zero = zero1(plan, zero_axes(mesh), mesh);
  const UpdatePlan& split = zero.plan;
  EXPECT_EQ(sharding::text_of(split.slots()[0].type), "f32[(layer):3, 6@data, 8@tensor]");
  EXPECT_EQ(split.slots()[0].type, split.slots()[1].type);
  EXPECT_EQ(split.slots()[0].type, split.accumulator()[0].type);
  EXPECT_EQ(split.parameters()[0].type, type);
  EXPECT_EQ(plan.slots()[0].type, type);
  EXPECT_EQ(zero.reasons.size(), 2u);  // the bias's two moments
  EXPECT_EQ(ir::print_module(*step_function(split)), ir::print_module(*step_function(plan)));
}

TEST(Zero, OptimisersThatCoupleElementsSaySo) {
  EXPECT_FALSE(make_adamw()->couples_elements());
  EXPECT_FALSE(make_lion()->couples_elements());
  EXPECT_TRUE(make_adafactor()->couples_elements());
  EXPECT_TRUE(make_muon()->couples_elements());
}

}  // namespace
}  // namespace strata::optim
