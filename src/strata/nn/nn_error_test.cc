// Misuse of modules and stacks.
#include <gtest/gtest.h>

#include "strata/nn/attention.h"
#include "strata/nn/toy_for_test.h"
#include "strata/testing/errors.h"

namespace strata::nn {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;
using strata::testing::expect_error;

constexpr Code kInvalid = Code::invalid_argument;

TEST(ModuleErrors, MemberNames) {
  ToyModel model(2);
  sharding::ParamType type{DType::f32, {{.size = 3}}};
  expect_error(Code::already_exists, "nn.member_name", "root module",
               [&] { Param(&model, "layers", type); });
  expect_error(Code::already_exists, "nn.member_name", "layers",
               [&] { ToyLayer(&model.stack, "1", 3); });
  expect_error(Code::already_exists, "nn.member_name", "''", [&] { Param(&model, "", type); });
  EXPECT_TRUE(model.params().empty());
  EXPECT_EQ(model.stack.children().size(), 2u);
}

TEST(ModuleErrors, KvHeadsThatDoNotDivide) {
  ToyModel model(0);
  expect_error(kInvalid, "nn.kv_heads", "4 query heads, 3 kv heads", [&] {
    Attention(&model, "attention", {8, 4, 3, 2});
  });
  expect_error(kInvalid, "nn.kv_heads", "0 kv heads", [&] {
    Attention(&model, "attention", {8, 4, 0, 2});
  });
  EXPECT_EQ(model.children().size(), 1u);  // no trace of what failed
}

TEST(StructureErrors, ForceWantsAStack) {
  Linear model(nullptr, "", {3, 3}, false);
  expect_error(Code::failed_precondition, "nn.no_stack", "a LayerStack to scan", [&] {
    Structure(model, {ScanMode::force, 0, {}});
  });
  EXPECT_EQ(model.params().size(), 1u);
}

TEST(StructureErrors, ScanModeText) {
  expect_error(kInvalid, "nn.scan_mode", "'on'", [] { parse_scan_mode("on"); });
}

TEST(ContextErrors, SlotsThatDoNotFit) {
  ToyModel model(2);
  Structure structure(model, {ScanMode::off, 0, {}});
  Function f;
  Value w = f.parameter({DType::f32, {3, 3}}), wrong = f.parameter({DType::f32, {3, 4}});
  expect_error(kInvalid, "nn.slot_count", "2 values", [&] { Context(f, structure, {w}); });
  expect_error(kInvalid, "nn.slot_dims", "layers.1.linear.weight", [&] {
    Context(f, structure, {w, wrong});
  });
}

// A layer with as many outputs as its number, which no fingerprint shows.
class UnevenLayer : public Layer {
 public:
  using Layer::Layer;
  LayerResult forward(const Context&, const Values& carry, const Values&,
                      const TokenContext&) const override {
    return {carry, Values(static_cast<size_t>(std::stoi(name())), carry[0])};
  }
  std::string describe() const override { return "UnevenLayer"; }
};

struct UnevenModel : Module {
  UnevenModel() : Module(nullptr, ""), stack(this, "uneven") {
    for (int i = 0; i < 3; ++i) stack.emplace<UnevenLayer>();
  }
  std::string describe() const override { return "UnevenModel"; }
  LayerStack stack;
};

TEST(LayerStackErrors, Inputs) {
  ToyModel model(2);
  Structure structure(model, {});
  Function f;
  Context context(f, structure, {f.parameter({DType::f32, {2, 3, 3}})});
  Value h = f.parameter({DType::f32, {1, 3}});
  expect_error(kInvalid, "nn.per_layer_input", "2 layers on dim 0",
               [&] { model.stack.run(context, {h}, {h}, {}); });
  expect_error(kInvalid, "nn.inputs_each", "inputs for 1",
               [&] { model.stack.run_each(context, {h}, {{h}}, {}); });
}

TEST(LayerStackErrors, LayersWithOtherNumbersOfOutputs) {
  UnevenModel model;
  Structure structure(model, {ScanMode::off, 0, {}});
  Function f;
  Value h = f.parameter({DType::f32, {1, 3}});
  Context context(f, structure, {});
  expect_error(kInvalid, "nn.layer_outputs", "uneven",
               [&] { model.stack.run(context, {h}, {}, {}); });
}

}  // namespace
}  // namespace strata::nn
