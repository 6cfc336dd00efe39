// However a stack is planned, stacked and recomputed, it computes the same: outputs, taps, state
// and every gradient.
#include <gtest/gtest.h>

#include "strata/nn/stack_for_test.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::LayerRun;

// Parameters of every rank, one without elements, buffers of both kinds, and a tap. Letters are
// kinds: they differ in configuration, in their parameters and in their taps.
class RichLayer : public Layer {
 public:
  RichLayer(Module* parent, std::string name, char kind, int64_t table)
      : Layer(parent, std::move(name)),
        kind_(kind),
        linear_(this, "linear", {3, 3}, kind == 'b'),
        scale_(this, "scale", {DType::f32}),
        empty_(this, "empty", sharding::plain_type(DType::f32, {0, 3})),
        cube_(this, "cube", sharding::plain_type(DType::f32, {2, 3, 2})),
        offset_(this, "offset", sharding::plain_type(DType::f32, {3}), Share::per_layer),
        table_(this, "table", sharding::plain_type(DType::f32, {table}), Share::shared),
        act_(this, "act") {
    if (kind == 'b') only_b_.emplace(this, "only_b");
  }

  LayerResult forward(const Context& context, const Values& carry, const Values& inputs,
                      const TokenContext&) const override {
    auto part = [&](const Param& p) { return ops::convert(context(p), carry[0].dtype()); };
    Value h = linear_(context, carry[0]) + ops::reduce_sum(part(table_), {0});
    h = context.tap(act_, ops::tanh(h));
    if (only_b_) context.tap(*only_b_, ops::reduce_sum(h * h, {0, 1}));
    h = h * part(scale_) + carry[0] * 0.5 + part(offset_) + ops::reduce_sum(part(empty_), {0});
    h = h + ops::reduce_sum(part(cube_), {0, 2}) * 0.1;
    for (const Value& x : inputs) h = h + x;
    return {{h}, {ops::sine(h)}};
  }
  std::string describe() const override { return std::string("RichLayer ") + kind_; }

 private:
  char kind_;
  Linear linear_;
  Param scale_, empty_, cube_;
  Buffer offset_, table_;
  Tap act_;
  std::optional<Tap> only_b_;
};

struct RichModel : Module {
  // The shared table has as many elements as there are layers: no reason to slice it.
  explicit RichModel(const std::string& kinds) : Module(nullptr, ""), stack(this, "layers") {
    for (char k : kinds) stack.emplace<RichLayer>(k, static_cast<int64_t>(kinds.size()));
  }
  std::string describe() const override { return "RichModel"; }
  LayerStack stack;
};

const std::vector<std::string> kTaps{"layers.*.act", "layers.*.only_b"};

Results run(const std::string& kinds, const ScanOptions& scan, ProbeOptions o = {}) {
  RichModel model(kinds);
  if (o.taps.empty() && kinds.find('b') != std::string::npos) o.taps = kTaps;
  return probe(model, model.stack, scan, o);
}

ScanOptions options(ScanMode mode, int64_t axis = 0, const std::string& remat = "none") {
  return {mode, axis, ops::parse_remat(remat)};
}

// Relative L2 over all gradients together: single ones may be small beside what they are sums of.
double gradient_difference(const Results& got, const Results& want) {
  double difference = 0, size = 0;
  for (const auto& row : want) {
    if (!row.first.starts_with("of ")) continue;
    for (size_t i = 0; i < row.second.size(); ++i) {
      difference += std::pow(got.at(row.first)[i] - row.second[i], 2);
      size += std::pow(row.second[i], 2);
    }
  }
  return std::sqrt(difference / size);
}

// A prefix, a cycle of three, a suffix: p (aab)(aab) aa.
const char* const kMixed = "paabaabaa";

TEST(StackEquivalence, ThePlanOfTheMixedStack) {
  RichModel model(kMixed);
  Structure structure(model, {});
  EXPECT_EQ(structure.plan(model.stack).runs,
            (std::vector<LayerRun>{{0, 1, 1, false}, {1, 3, 2, true}, {7, 1, 2, true}}));
  const sharding::Manifest& m = structure.manifest();
  EXPECT_EQ(m.slots()[0].name, "layers.0.table") << "shared, so before the runs and unstacked";
  EXPECT_EQ(m.slots()[0].type.sizes(), Dims{9});
  EXPECT_EQ(m.slots()[0].kind, sharding::Kind::buffer);
  EXPECT_EQ(m.ties().size(), 8u);
  EXPECT_EQ(m.index_of("layers.8.table"), 0);
  EXPECT_EQ(m.at("layers[1:7:3].offset").kind, sharding::Kind::buffer);
  EXPECT_EQ(m.at("layers[1:7:3].offset").type.sizes(), (Dims{2, 3}));
  EXPECT_EQ(m.at("layers[3:7:3].linear.bias").type.sizes(), (Dims{2, 3}));
  EXPECT_EQ(structure.taps(), kTaps);
}

TEST(StackEquivalence, UnderEveryRematPolicy) {
  Results want = run(kMixed, options(ScanMode::off));
  EXPECT_EQ(want.size(), 5u + 2u + 9u * 5u + 2u + 1u) << "a gradient for every parameter";
  for (const char* remat :
       {"none", "dots", "full", "names:act", "names:act,only_b", "offload:act"}) {
    SCOPED_TRACE(remat);
    expect_same(run(kMixed, options(ScanMode::automatic, 0, remat)), want, 1e-5);
  }
  for (ScanMode mode : {ScanMode::off, ScanMode::force}) {
    expect_same(run(kMixed, options(mode, 0, "full")), want, 1e-5);
  }
}

TEST(StackEquivalence, OnEveryStackAxis) {
  Results want = run(kMixed, options(ScanMode::off));
  for (int64_t axis : {1, 2, -1}) {
    SCOPED_TRACE(axis);
    expect_same(run(kMixed, options(ScanMode::automatic, axis)), want, 1e-5);
    expect_same(run(kMixed, options(ScanMode::force, axis, "full")), want, 1e-5);
  }
}

TEST(StackEquivalence, WithLoopsInsideOfTheLoop) {
  Results want = run(kMixed, options(ScanMode::off));
  for (const char* remat : {"none", "full"}) {
    for (int64_t axis : {0, -1}) {
      SCOPED_TRACE(remat + std::to_string(axis));
      ScanOptions nested = options(ScanMode::automatic, axis, remat);
      nested.nested = true;
      expect_same(run(kMixed, nested), want, 1e-5);
    }
  }
}

TEST(StackEquivalence, LayerByLayer) {
  ProbeOptions each;
  each.each = true;
  Results want = run(kMixed, options(ScanMode::off));
  for (int64_t axis : {0, 1, -1}) {
    expect_same(run(kMixed, options(ScanMode::automatic, axis), each), want, 1e-5);
  }
  expect_same(run(kMixed, options(ScanMode::off), each), want, 1e-5);
}

TEST(StackEquivalence, OfNoneOneTwoAndSevenLayers) {
  for (const char* kinds : {"", "a", "aa", "aaaaaaa"}) {
    SCOPED_TRACE(kinds);
    Results want = run(kinds, options(ScanMode::off));
    for (int64_t axis : {0, 1}) {
      expect_same(run(kinds, options(ScanMode::automatic, axis)), want, 1e-5);
      expect_same(run(kinds, options(ScanMode::force, axis)), want, 1e-5);
    }
  }
}

TEST(StackEquivalence, InLowPrecisionTheResidualStreamKeepsItsType) {
  for (const char* keep : {"", "scale"}) {  // all in bf16, and one parameter left in f32
    ProbeOptions o;
    o.compute = DType::bf16;
    o.keep_f32 = keep;
    Results want = run("aabaab", options(ScanMode::off), o);
    Results got = run("aabaab", options(ScanMode::force), o);
    // Bits: the loop computes each layer as the unrolled program does.
    for (const char* name : {"carry", "output 0", "tap layers.*.act", "tap layers.*.only_b"}) {
      EXPECT_EQ(got.at(name), want.at(name)) << name;
    }
    EXPECT_LE(gradient_difference(got, want), 1e-2);
  }
}

TEST(StackTypes, StackedParametersClampTheAxisToTheirRank) {
  struct Row {
    int64_t axis;
    Dims scalar, vector, matrix, cube, empty;
  };
  for (const Row& r : {Row{0, {2}, {2, 3}, {2, 3, 3}, {2, 2, 3, 2}, {2, 0, 3}},
                       Row{1, {2}, {3, 2}, {3, 2, 3}, {2, 2, 3, 2}, {0, 2, 3}},
                       Row{2, {2}, {3, 2}, {3, 3, 2}, {2, 3, 2, 2}, {0, 3, 2}},
                       Row{-1, {2}, {3, 2}, {3, 3, 2}, {2, 3, 2, 2}, {0, 3, 2}}}) {
    SCOPED_TRACE(r.axis);
    RichModel model("aa");
    Structure structure(model, options(ScanMode::automatic, r.axis));
    auto dims = [&](const char* leaf) {
      return structure.manifest().at(std::string("layers[0:2:1].") + leaf).type.sizes();
    };
    EXPECT_EQ(dims("scale"), r.scalar);
    EXPECT_EQ(dims("offset"), r.vector);
    EXPECT_EQ(dims("linear.weight"), r.matrix);
    EXPECT_EQ(dims("cube"), r.cube);
    EXPECT_EQ(dims("empty"), r.empty);
    EXPECT_EQ(structure.manifest().at("layers.1.table").type.sizes(), Dims{2});
  }
}

TEST(Taps, AreStackedOverTheLayersThatHaveThem) {
  RichModel model(kMixed);
  for (ScanMode mode : {ScanMode::off, ScanMode::automatic, ScanMode::force}) {
    Structure structure(model, options(mode));
    TapSink sink(structure, {"layers.*.only_b", "layers.*.act"});
    ir::Function f;
    Values parameters;
    for (const auto& s : structure.manifest().slots()) {
      parameters.push_back(f.parameter({DType::f32, s.type.sizes()}));
    }
    Value h = f.parameter({DType::f32, {2, 3}});
    Context context(f, structure, parameters);
    model.stack.run(context, {h}, {}, {});
    EXPECT_TRUE(sink.values().empty()) << "nobody asked this call";
    model.stack.run(context.with_taps(sink), {h}, {}, {});
    ASSERT_EQ(sink.values().size(), 2u);
    EXPECT_EQ(sink.at("layers.*.act").layers, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(sink.at("layers.*.act").value.dims(), (Dims{9, 2, 3}));
    EXPECT_EQ(sink.at("layers.*.only_b").layers, (std::vector<int64_t>{3, 6}));
    EXPECT_EQ(sink.at("layers.*.only_b").value.dims(), Dims{2});
  }
}

}  // namespace
}  // namespace strata::nn
