// Parameters that layers share: one slot, the gradient summed over its uses, loops notwithstanding.
#include "strata/nn/sharing.h"

#include <gtest/gtest.h>

#include "strata/nn/stack_for_test.h"
#include "strata/ops/dot.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::LayerRun;
using sharding::Tie;

enum class Owner { each, first, outside, twin };

// h' = tanh(h Aᵀ) Bᵀ + h. B is the layer's own, another layer's, an outer module's, or A again.
class TiedLayer : public Layer {
 public:
  TiedLayer(Module* parent, std::string name, Owner owner, const Param* shared)
      : Layer(parent, std::move(name)), a_(this, "a", kType), hidden_(this) {
    if (owner == Owner::twin) {
      b_.emplace(this, "b", a_);
    } else if (shared == nullptr) {
      b_.emplace(this, "b", kType);
    } else {
      b_.emplace(this, "b", *shared);
    }
  }
  LayerResult forward(const Context& context, const Values& carry, const Values&,
                      const TokenContext&) const override {
    Value h = ops::tanh(ops::linear(carry[0], context(a_)));
    return {{carry[0] + ops::linear(h, context(*b_)) + context(hidden_.secret)}, {h}};
  }
  std::string describe() const override { return "TiedLayer"; }
  const Param& b() const { return *b_; }

 private:
  static inline const sharding::ParamType kType = sharding::plain_type(DType::f32, {3, 3});
  // Fields register themselves, whatever they are called and whoever may see them.
  struct Hidden : Module {
    explicit Hidden(Module* parent)
        : Module(parent, "_hidden"),
          secret(this, "_secret", sharding::plain_type(DType::f32, {3})) {}
    std::string describe() const override { return "Hidden"; }
    Param secret;
  };
  Param a_;
  Hidden hidden_;
  std::optional<Param> b_;
};

struct TiedModel : Module {
  TiedModel(Owner owner, int64_t layers) : Module(nullptr, ""), stack(this, "layers") {
    if (owner == Owner::outside) {
      outside.emplace(this, "outside", sharding::plain_type(DType::f32, {3, 3}));
    }
    const Param* shared = outside ? &*outside : nullptr;
    for (int64_t i = 0; i < layers; ++i) {
      TiedLayer& layer = stack.emplace<TiedLayer>(owner, shared);
      if (owner == Owner::first && i == 0) shared = &layer.b();
    }
  }
  std::string describe() const override { return "TiedModel"; }
  std::optional<Param> outside;
  LayerStack stack;
};

struct Row {
  Owner owner;
  std::vector<std::string> slots;  // when scanned, without the hidden one
  std::vector<Tie> ties;
};

const Row kRows[] = {
    {Owner::each, {"layers[0:3:1].a", "layers[0:3:1].b"}, {}},
    {Owner::first,
     {"layers.0.b", "layers[0:3:1].a"},
     {{"layers.1.b", "layers.0.b"}, {"layers.2.b", "layers.0.b"}}},
    {Owner::outside,
     {"outside", "layers[0:3:1].a"},
     {{"layers.0.b", "outside"}, {"layers.1.b", "outside"}, {"layers.2.b", "outside"}}},
    {Owner::twin, {"layers[0:3:1].a"}, {{"layers[0:3:1].b", "layers[0:3:1].a"}}},
};

TEST(Sharing, IsOneSlotThatNoLoopStacks) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(static_cast<int>(row.owner));
    TiedModel model(row.owner, 3);
    Structure structure(model, {});
    EXPECT_EQ(structure.plan(model.stack).runs, (std::vector<LayerRun>{{0, 1, 3, true}}));
    std::vector<std::string> names;
    for (const sharding::Slot& s : structure.manifest().slots()) {
      if (s.name.find("_hidden") == std::string::npos) names.push_back(s.name);
    }
    EXPECT_EQ(names, row.slots);
    EXPECT_EQ(structure.manifest().ties(), row.ties);
    EXPECT_GE(structure.manifest().find("layers[0:3:1]._hidden._secret"), 0);
  }
}

TEST(Sharing, GradientsAreSummedOverTheUses) {
  for (const Row& row : kRows) {
    TiedModel model(row.owner, 3);
    Results want = probe(model, model.stack, {ScanMode::off, 0, {}});
    for (const char* remat : {"none", "full"}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(row.owner)) + remat);
      expect_same(probe(model, model.stack, {ScanMode::force, 0, ops::parse_remat(remat)}), want,
                  1e-5);
    }
    ProbeOptions each;
    each.each = true;
    expect_same(probe(model, model.stack, {}, each), want, 1e-5);
  }
}

TEST(Sharing, TiesToOtherOwnersKeepLayersApart) {
  TiedModel model(Owner::outside, 2);
  Param other(&model, "other", sharding::plain_type(DType::f32, {3, 3}));
  model.stack.emplace<TiedLayer>(Owner::outside, &other);
  model.stack.emplace<TiedLayer>(Owner::outside, &other);
  Structure structure(model, {});
  EXPECT_EQ(structure.plan(model.stack).runs,
            (std::vector<LayerRun>{{0, 1, 2, true}, {2, 1, 2, true}}));
  EXPECT_EQ(
      structure.reasons(),
      std::vector<std::string>{"layers.1 and layers.2 differ: b is tied to outside in layers.1, "
                               "tied to other in layers.2"});
}

// A stack inside of a layer runs as it is built, with the outer layer's loop around it.
class NestLayer : public Layer {
 public:
  NestLayer(Module* parent, std::string name)
      : Layer(parent, std::move(name)), inner_(this, "inner") {
    for (int i = 0; i < 2; ++i) inner_.emplace<ToyLayer>(3);
  }
  LayerResult forward(const Context& context, const Values& carry, const Values& inputs,
                      const TokenContext& tokens) const override {
    Value h = inner_.run(context, carry, {}, tokens).carry[0];
    return {{h + inputs[0]}, {h}};
  }
  std::string describe() const override { return "NestLayer"; }

 private:
  LayerStack inner_;
};

struct NestModel : Module {
  NestModel() : Module(nullptr, ""), stack(this, "layers") {
    for (int i = 0; i < 3; ++i) stack.emplace<NestLayer>();
  }
  std::string describe() const override { return "NestModel"; }
  LayerStack stack;
};

TEST(InnerStack, RunsInsideOfTheLoop) {
  NestModel model;
  Structure structure(model, {});
  EXPECT_EQ(structure.manifest().plans().size(), 1u);
  EXPECT_GE(structure.manifest().find("layers[0:3:1].inner.1.linear.weight"), 0);
  Results want = probe(model, model.stack, {ScanMode::off, 0, {}});
  expect_same(probe(model, model.stack, {}), want, 1e-5);
}

}  // namespace
}  // namespace strata::nn
