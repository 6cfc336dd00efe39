// Misuse of modules and stacks.
#include <gtest/gtest.h>

#include <optional>

#include "strata/nn/attention.h"
#include "strata/nn/fake_quant.h"
#include "strata/nn/lora.h"
#include "strata/nn/toy_for_test.h"
#include "strata/ops/constant.h"
#include "strata/ops/shape.h"
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

// ---- Model transforms ---------------------------------------------------------------------------

// An embedding beside the layers.
struct TableModel : ToyModel {
  TableModel() : ToyModel(2), table(this, "table", 5, 3) {}
  Embedding table;
};

TEST(TransformErrors, TargetsThatAreNoLinearMap) {
  TableModel model;
  auto refused = [&](const std::string& target, const std::string& part) {
    expect_error(kInvalid, "nn.transform_target", part, [&] {
      Lora({.targets = {"*.linear", target}}).apply(model, {{"head.weight", "table.weight"}});
    });
  };
  refused("*.linaer", "The nearest is layers.*.linear");
  refused("linear", "no module of this path");
  refused("table", "table, a Embedding");
  refused("table", "only what multiplies with a kernel");
  refused("head", "another name of table.weight");
  expect_error(kInvalid, "nn.transform_target", "at least one",
               [&] { Lora({.targets = {}}).apply(model, {}); });
  Module& root = model;
  EXPECT_EQ(root.all_params().size(), 3u);  // nothing was declared
}

TEST(TransformErrors, OnceAndBeforeTheStructure) {
  ToyModel model(2);
  Lora lora({.targets = {"layers.1.*"}});
  lora.apply(model, {});
  expect_error(Code::already_exists, "nn.transform_twice", "a field 'lora_A'",
               [&] { Lora({.targets = {"*.linear"}}).apply(model, {}); });
  EXPECT_EQ(model.all_params().size(), 4u);
  Structure structure(model, {});
  expect_error(Code::failed_precondition, "nn.frozen", "before the model's structure",
               [&] { FakeQuant({.targets = {"*.linear"}}).apply(model, {}); });
}

TEST(TransformErrors, Numbers) {
  expect_error(kInvalid, "nn.lora_config", "rank 0", [] { Lora({.rank = 0, .targets = {"*"}}); });
  expect_error(kInvalid, "nn.lora_config", "alpha -1", [] { Lora({.alpha = -1}); });
  expect_error(kInvalid, "nn.quant_format", "'int4'", [] { parse_quant_format("int4"); });
}

TEST(TransformErrors, Files) {
  auto refused = [](const char* id, const char* part, const char* text) {
    expect_error(Code::data_loss, id, part,
                 [&] { transform_from_json(Json::parse(text), "config.json"); });
  };
  refused("nn.transform_kind", "'dora'", R"({"kind": "dora"})");
  refused("nn.transform_key", "'dropout'",
          R"({"kind": "lora", "rank": 1, "alpha": 1, "targets": ["*"], "dropout": 1})");
  refused("nn.transform_key", "key 'targets'", R"({"kind": "lora", "rank": 1, "alpha": 1})");
  refused("nn.transform_key", "key 'targets'", R"({"kind": "fake_quant", "format": "int8"})");
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

// ---- Buffers, ties, taps, keys ------------------------------------------------------------------

using sharding::plain_type;

// A layer that is told what to declare and what to do.
struct Told {
  int64_t buffer = 3;           // elements of its per-layer buffer
  const Param* tied = nullptr;  // what its second parameter is a name of
  const Param* read = nullptr;  // read without being declared
  int taps = 1;                 // how often its tap is emitted
  bool tap_inside = false;      // emitted inside of a call of its own
  int64_t tap_size = 1;
  bool narrow = false;  // the carry loses a column
  bool draw = false;
};

class ToldLayer : public Layer {
 public:
  ToldLayer(Module* parent, std::string name, const Told& told)
      : Layer(parent, std::move(name)),
        told_(told),
        weight(this, "weight", plain_type(DType::f32, {3})),
        buffer_(this, "buffer", plain_type(DType::f32, {told.buffer}), Share::per_layer),
        tap_(this, "probe") {
    if (told.tied != nullptr) second_.emplace(this, "second", *told.tied);
  }
  LayerResult forward(const Context& context, const Values& carry, const Values&,
                      const TokenContext&) const override {
    Value h = carry[0] * context(weight);
    if (second_) h = h * context(*second_);
    if (told_.read != nullptr) h = h * context(*told_.read);
    if (told_.draw) context.key("noise", *this);
    Value probe = ops::full(context.function(), DType::f32, {told_.tap_size}, 1);
    for (int i = 0; i < told_.taps; ++i) {
      if (!told_.tap_inside) context.tap(tap_, probe);
    }
    if (told_.tap_inside) {
      ops::call(context.function(), {probe}, {},
                [&](const Values& v) { return Values{context.tap(tap_, v[0])}; });
    }
    return {{told_.narrow ? ops::slice_axis(h, 1, 0, 2) : h}, {}};
  }
  std::string describe() const override { return "ToldLayer"; }

 private:
  Told told_;

 public:
  Param weight;

 private:
  Buffer buffer_;
  std::optional<Param> second_;
  Tap tap_;
};

struct ToldModel : Module {
  ToldModel()
      : Module(nullptr, ""),
        outside(this, "outside", plain_type(DType::f32, {3})),
        stack(this, "layers") {}
  std::string describe() const override { return "ToldModel"; }
  const ToldLayer& add(const Told& told) { return stack.emplace<ToldLayer>(told); }
  Param outside;
  LayerStack stack;
};

// Traces one call of a stack of two layers.
void call(const ToldModel& model, std::vector<std::string> taps = {}) {
  Structure structure(model, {ScanMode::off, 0, {}});
  Function f;
  Values parameters;
  for (const auto& s : structure.manifest().slots()) {
    parameters.push_back(f.parameter({DType::f32, s.type.sizes()}));
  }
  TapSink sink(structure, std::move(taps));
  Context context = Context(f, structure, parameters).with_taps(sink);
  model.stack.run(context, {f.parameter({DType::f32, {2, 3}})}, {}, {});
}

void call(const Told& told, std::vector<std::string> taps = {}) {
  ToldModel model;
  for (int i = 0; i < 2; ++i) model.add(told);
  call(model, std::move(taps));
}

constexpr Code kState = Code::failed_precondition;

TEST(BufferErrors, ShapesPerLayerMustAgree) {
  for (ScanMode mode : {ScanMode::off, ScanMode::automatic, ScanMode::force}) {
    ToldModel model;
    model.add({});
    model.add({.buffer = 4});
    expect_error(kInvalid, "nn.per_layer_buffer",
                 "buffer is a buffer f32[3] in layers.0, a buffer f32[4] in layers.1", [&] {
                   Structure(model, {mode, 0, {}});
                 });
    model.add({.buffer = 3});  // not frozen by what failed
  }
}

TEST(TieErrors, AParameterSharedBySomeLayersCannotBeStacked) {
  ToldModel model;
  model.add({});
  const ToldLayer& second = model.add({});
  model.add({.tied = &second.weight});
  for (ScanMode mode : {ScanMode::automatic, ScanMode::force}) {
    expect_error(kState, "nn.tie_breaks_stack", "a name of layers.1.weight, which is stacked in",
                 [&] {
                   Structure(model, {mode, 0, {}});
                 });
    expect_error(kState, "nn.tie_breaks_stack", "layers.2.second", [&] {
      Structure(model, {mode, 0, {}});
    });
  }
  Structure unstacked(model, {ScanMode::off, 0, {}});
  EXPECT_EQ(unstacked.manifest().ties(),
            (std::vector<sharding::Tie>{{"layers.2.second", "layers.1.weight"}}));
}

TEST(TieErrors, AModuleOutsideMayNotShareWhatIsStacked) {
  ToldModel model;
  const ToldLayer& first = model.add({});
  model.add({});
  expect_error(kState, "nn.tie_breaks_stack", "layers.0.weight", [&] {
    Structure(model, {}, {{"head.weight", "layers.0.weight"}});
  });
  Param head(&model, "head", first.weight);
  expect_error(kState, "nn.tie_breaks_stack", "layers.0.weight", [&] { Structure(model, {}); });
}

TEST(TieErrors, AnotherModelsParameter) {
  ToldModel model, other;
  Param alias(&model, "alias", other.outside);
  expect_error(kInvalid, "nn.tie_outside", "a name of outside", [&] { Structure(model, {}); });
}

TEST(ModuleErrors, NothingIsDeclaredAfterTheStructure) {
  ToldModel model;
  model.add({});
  Structure structure(model, {});
  expect_error(kState, "nn.frozen", "'late' declared after that",
               [&] { Param(&model, "late", plain_type(DType::f32, {})); });
  expect_error(kState, "nn.frozen", "'1' declared after that", [&] { model.add({}); });
  EXPECT_EQ(model.stack.size(), 1u);
}

TEST(ContextErrors, LayersReadWhatTheyDeclare) {
  ToldModel model;
  model.add({.read = &model.outside});
  expect_error(kState, "nn.undeclared_read", "a read of outside", [&] { call(model); });
}

TEST(TapErrors, EachTapIsEmittedOnce) {
  call(Told{});
  expect_error(kState, "nn.tap_missing", "none for layers.*.probe", [] { call({.taps = 0}); });
  expect_error(kState, "nn.tap", "emitted twice", [] { call({.taps = 2}); });
}

TEST(TapErrors, AWantedTapMustBeReachable) {
  call({.tap_inside = true});
  expect_error(kState, "nn.tap", "wanted as an output from inside of one",
               [] { call({.tap_inside = true}, {"layers.*.probe"}); });
}

TEST(TapErrors, HaveOneTypeInAllLayers) {
  ToldModel model;
  model.add({});
  model.add({.tap_size = 2});
  expect_error(kInvalid, "nn.tap_type", "layers.*.probe", [&] { call(model, {"layers.*.probe"}); });
}

TEST(TapErrors, Names) {
  ToldModel model;
  model.add({});
  Structure structure(model, {});
  expect_error(Code::not_found, "nn.unknown_tap", "Did you mean 'layers.*.probe'",
               [&] { TapSink(structure, {"layers.*.prob"}); });
  TapSink sink(structure, {"layers.*.probe"});
  expect_error(kState, "nn.tap_not_emitted", "'layers.*.probe'",
               [&] { sink.at("layers.*.probe"); });
}

TEST(RematErrors, NamesThatNoLayerHas) {
  ToldModel model;
  model.add({});
  auto structure = [](const Module& m, const char* remat) {
    Structure(m, {ScanMode::automatic, 0, ops::parse_remat(remat)});
  };
  structure(model, "names:probe");
  expect_error(Code::not_found, "nn.remat_name", "names of taps of the layers: probe",
               [&] { structure(model, "names:probe,prob"); });
  Linear none(nullptr, "", {3, 3}, false);
  expect_error(Code::not_found, "nn.remat_name", "no layer of this model has taps",
               [&] { structure(none, "names:probe"); });
}

TEST(LayerStackErrors, ACarryOfOtherDims) {
  expect_error(kInvalid, "nn.layer_carry", "got 2x2xf32", [] { call({.narrow = true}); });
}

TEST(ContextErrors, KeysWithoutRandomness) {
  expect_error(kState, "nn.no_random", "stream 'noise'", [] { call({.draw = true}); });
}

}  // namespace
}  // namespace strata::nn
