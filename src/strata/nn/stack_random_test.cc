// Random keys inside of stacks: equal however a stack is planned and recomputed, and different
// where they should be.
#include <gtest/gtest.h>

#include "strata/base/hash.h"
#include "strata/nn/stack_for_test.h"
#include "strata/ops/gather.h"
#include "strata/ops/sort.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;

// h' = h + 2 · mask · (h Wᵀ), with the mask as output.
class DropoutLayer : public Layer {
 public:
  DropoutLayer(Module* parent, std::string name, std::string stream = "dropout")
      : Layer(parent, std::move(name)),
        stream_(std::move(stream)),
        linear_(this, "linear", {3, 3}, false) {}

  LayerResult forward(const Context& context, const Values& carry, const Values&,
                      const TokenContext&) const override {
    Value y = linear_(context, carry[0]);
    Value mask = ops::full_like(y, 1);
    if (context.is_random()) {
      Value half = ops::full(context.function(), DType::f32, y.dims(), 0.5);
      mask = ops::convert(ops::bernoulli(context.key(stream_, linear_), half), y.dtype()) * 2.0;
    }
    return {{carry[0] + y * mask}, {mask}};
  }
  std::string describe() const override { return "DropoutLayer " + stream_; }

 private:
  std::string stream_;
  Linear linear_;
};

struct DropoutModel : Module {
  explicit DropoutModel(int64_t layers, const std::string& stream = "dropout")
      : DropoutModel(std::vector<std::string>(static_cast<size_t>(layers), stream)) {}
  explicit DropoutModel(const std::vector<std::string>& streams)
      : Module(nullptr, ""), stack(this, "layers") {
    for (const std::string& s : streams) stack.emplace<DropoutLayer>(s);
  }
  std::string describe() const override { return "DropoutModel"; }
  LayerStack stack;
};

Results run(const ScanOptions& scan, double step, uint64_t seed = 11,
            const std::string& stream = "dropout", int64_t layers = 3) {
  DropoutModel model(layers, stream);
  ProbeOptions o;
  o.step = step;
  o.seed = seed;
  return probe(model, model.stack, scan, o);
}

ScanOptions options(ScanMode mode, const std::string& remat = "none") {
  return {mode, 0, ops::parse_remat(remat)};
}

TEST(Dropout, MasksAreThoseOfTheForwardPassHoweverItIsRecomputed) {
  Results want = run(options(ScanMode::off), 4);
  const std::vector<double>& masks = want.at("output 0");
  auto kept = std::count(masks.begin(), masks.end(), 2.0);
  EXPECT_TRUE(kept > 0 && kept < static_cast<int64_t>(masks.size())) << kept;
  for (const char* remat : {"none", "dots", "full"}) {
    for (ScanMode mode : {ScanMode::off, ScanMode::force}) {
      SCOPED_TRACE(remat);
      Results got = run(options(mode, remat), 4);
      EXPECT_EQ(got.at("output 0"), masks);
      expect_same(got, want, 1e-6);
    }
  }
}

TEST(Dropout, MasksAreTheSameInCyclesAndInnerLoops) {
  DropoutModel model({"x", "x", "y", "x", "x", "y", "x"});
  ProbeOptions o;
  o.step = 2;
  Results want = probe(model, model.stack, options(ScanMode::off), o);
  for (bool nested : {false, true}) {
    ScanOptions scan = options(ScanMode::automatic, "full");
    scan.nested = nested;
    Results got = probe(model, model.stack, scan, o);
    EXPECT_EQ(got.at("output 0"), want.at("output 0"));
    expect_same(got, want, 1e-5);
  }
}

TEST(Dropout, GradientsAreThoseOfTheMaskedFunction) {
  // loss(h) along the gradient's direction, by central differences with the same key.
  Results r = run(options(ScanMode::force, "full"), 4);
  const std::vector<double>&masks = r.at("output 0"), &gradient = r.at("of the carry");
  DropoutModel model(3);
  Structure structure(model, options(ScanMode::off));
  Tensors w = parameters_of(structure);
  testing::Random random(5);
  HostTensor start = random.tensor(DType::f32, {2, 3}, -1, 1);
  auto loss = [&](double along) {
    std::vector<double> h = values_of(start);
    for (size_t i = 0; i < 6; ++i) h[i] += along * gradient[i];
    double outputs = 0;
    for (size_t layer = 0; layer < 3; ++layer) {
      std::vector<double> next = h;
      for (size_t i = 0; i < 6; ++i) {
        double y = 0;
        for (size_t k = 0; k < 3; ++k) {
          y += h[i / 3 * 3 + k] * w[layer].at(static_cast<int64_t>(i % 3 * 3 + k));
        }
        next[i] += y * masks[layer * 6 + i];
        outputs += masks[layer * 6 + i];
      }
      h = next;
    }
    for (double x : h) outputs += x * x;
    return outputs;
  };
  double slope = 0;
  for (double g : gradient) slope += g * g;
  EXPECT_NEAR(loss(0), r.at("loss")[0], 1e-4 * std::abs(loss(0)));
  EXPECT_NEAR((loss(1e-4) - loss(-1e-4)) / 2e-4, slope, 1e-3 * slope);
}

TEST(Keys, DifferByLayerStepSeedAndStreamAndRepeat) {
  ScanOptions scan = options(ScanMode::force);
  auto masks = [&](double step, uint64_t seed, const char* stream) {
    return run(scan, step, seed, stream, 8).at("output 0");
  };
  std::vector<double> first = masks(4, 11, "dropout");
  for (size_t a = 0; a < 8; ++a) {
    for (size_t b = a + 1; b < 8; ++b) {
      auto row = [&](size_t i) {
        auto at = first.begin() + static_cast<ptrdiff_t>(6 * i);
        return std::vector<double>(at, at + 6);
      };
      // 6 bits: neighbours may collide by chance, all of them never.
      if (b == a + 1 && row(a) != row(b)) a = 8, b = 8;
      ASSERT_FALSE(a == 6 && b == 7) << "all layers drew the same mask";
    }
  }
  EXPECT_EQ(masks(4, 11, "dropout"), first) << "another run, resumed at the same step";
  EXPECT_NE(masks(5, 11, "dropout"), first);
  EXPECT_NE(masks(4, 12, "dropout"), first);
  EXPECT_NE(masks(4, 11, "noise"), first);
}

TEST(Keys, AreFoldedAsDocumented) {
  DropoutModel model(2);
  Structure structure(model, options(ScanMode::force));
  auto word = [](const char* text) {
    return static_cast<uint32_t>(std::stoul(sha256(text).substr(0, 8), nullptr, 16));
  };
  auto f = testing::trace({}, [&](ir::Function& g, const Values&) -> Values {
    Value w = ops::full(g, DType::f32, {2, 3, 3}, 0);
    Value step = ops::scalar(g, DType::i32, 9);
    Context context = Context(g, structure, {w}).with_random({ops::key(g, 3), step});
    Value h = ops::full(g, DType::f32, {2, 3}, 0);
    Value masks = model.stack.run(context, {h}, {}, {}).outputs[0];
    Value key = ops::fold_in(ops::key(g, 3), word("dropout"));
    key = ops::fold_in(key, word("layers.*.linear"));
    key = ops::fold_in(ops::fold_in(key, uint32_t{1}), uint32_t{9});
    Value half = ops::full(g, DType::f32, {2, 3}, 0.5);
    return {ops::select_index(masks, 0, 1),
            ops::convert(ops::bernoulli(key, half), DType::f32) * 2.0};
  });
  Tensors got = testing::Executor().run(*f, Tensors{});
  EXPECT_EQ(values_of(got[0]), values_of(got[1]));
}

// A router whose logits are all equal: which two of four experts it takes is the sort's choice,
// which recomputation must repeat.
class RouterLayer : public Layer {
 public:
  RouterLayer(Module* parent, std::string name)
      : Layer(parent, std::move(name)),
        experts_(this, "experts", sharding::plain_type(DType::f32, {4, 3})) {}

  LayerResult forward(const Context& context, const Values& carry, const Values&,
                      const TokenContext&) const override {
    Value h = carry[0];
    Value logits = ops::broadcast_in_dim(ops::reduce_sum(h, {1}) * 0.0, {2, 4}, {0});
    Value order = ops::argsort(logits, 1, true);
    for (int64_t k : {0, 1}) {
      Value chosen = ops::take(context(experts_), ops::select_index(order, 1, k), 0);
      h = h + ops::tanh(h) * chosen;
    }
    return {{h}, {order}};
  }
  std::string describe() const override { return "RouterLayer"; }

 private:
  Param experts_;
};

struct RouterModel : Module {
  RouterModel() : Module(nullptr, ""), stack(this, "layers") {
    for (int i = 0; i < 3; ++i) stack.emplace<RouterLayer>();
  }
  std::string describe() const override { return "RouterModel"; }
  LayerStack stack;
};

TEST(Router, TiesChooseTheSameExpertsInRecomputation) {
  RouterModel model;
  Results want = probe(model, model.stack, options(ScanMode::off));
  const std::vector<double>& gradient = want.at("of layers.0.experts");
  EXPECT_TRUE(gradient[0] != 0 && gradient[3] != 0) << "the first two experts are taken";
  EXPECT_TRUE(gradient[6] == 0 && gradient[9] == 0);
  for (const char* remat : {"none", "dots", "full"}) {
    for (ScanMode mode : {ScanMode::off, ScanMode::force}) {
      Results got = probe(model, model.stack, options(mode, remat));
      EXPECT_EQ(got.at("output 0"), want.at("output 0"));
      expect_same(got, want, 1e-6);
    }
  }
}

}  // namespace
}  // namespace strata::nn
