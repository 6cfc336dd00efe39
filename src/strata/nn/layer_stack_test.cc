// Scanned and unrolled stacks: which one a mode gives, and that both compute the same.
#include "strata/nn/layer_stack.h"

#include <gtest/gtest.h>

#include <map>

#include "strata/nn/toy_for_test.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/transform/vjp.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::LayerRun;

// A class of its own that describes itself like another.
class OtherToyLayer : public ToyLayer {
 public:
  using ToyLayer::ToyLayer;
};

struct ModeRow {
  ScanMode mode;
  int64_t layers;
  bool scanned;
};

constexpr ModeRow kModes[] = {
    {ScanMode::off, 1, false},       {ScanMode::off, 2, false},      {ScanMode::off, 7, false},
    {ScanMode::automatic, 1, false}, {ScanMode::automatic, 2, true}, {ScanMode::automatic, 7, true},
    {ScanMode::force, 1, true},      {ScanMode::force, 2, true},     {ScanMode::force, 7, true},
};

TEST(ScanMode, SaysWhichStacksAreLoops) {
  for (const ModeRow& row : kModes) {
    SCOPED_TRACE(std::to_string(static_cast<int>(row.mode)) + " of " + std::to_string(row.layers));
    ToyModel model(row.layers);
    Structure structure(model, {row.mode, 0, {}});
    LayerRun want =
        row.scanned ? LayerRun{0, 1, row.layers, true} : LayerRun{0, row.layers, 1, false};
    EXPECT_EQ(structure.plan(model.stack).runs, std::vector<LayerRun>{want});
    EXPECT_EQ(structure.manifest().size(), row.scanned ? 1u : static_cast<size_t>(row.layers));
    bool lone = row.mode == ScanMode::automatic && row.layers == 1;
    ASSERT_EQ(structure.reasons().size(), lone ? 1u : 0u);
    if (!lone) continue;
    EXPECT_EQ(structure.reasons()[0], "layers has one layer, and a loop is for two or more");
  }
}

TEST(ScanMode, AnEmptyStackPassesItsCarry) {
  for (ScanMode mode : {ScanMode::off, ScanMode::automatic, ScanMode::force}) {
    ToyModel model(0);
    Structure structure(model, {mode, 0, {}});
    EXPECT_EQ(structure.manifest().size(), 0u);
    ir::Function f;
    Value x = f.parameter({DType::f32, {2, 3}});
    LayerResult r = model.stack.run(Context(f, structure, {}), {x}, {}, {});
    EXPECT_EQ(r.carry, Values{x});
    EXPECT_TRUE(r.outputs.empty());
  }
}

TEST(ScanMode, AutoSaysWhyNeighboursDidNotMerge) {
  ToyModel model(2);
  model.stack.emplace<ToyLayer>(3, true);
  model.stack.emplace<ToyLayer>(4, true);
  model.stack.emplace<OtherToyLayer>(4, true);
  model.stack.emplace<ToyLayer>(4);
  Structure structure(model, {});
  EXPECT_EQ(structure.plan(model.stack).runs,
            (std::vector<LayerRun>{{0, 1, 2, true}, {2, 4, 1, false}}));
  EXPECT_EQ(structure.reasons(),
            (std::vector<std::string>{
                "layers.1 and layers.2 differ: linear.bias exists only in layers.2",
                "layers.2 and layers.3 differ: linear.weight is param f32[3, 3] in layers.2, param "
                "f32[4, 4] in layers.3",
                "layers.3 and layers.4 differ: one is another class of the name ToyLayer",
                "layers.4 and layers.5 differ: one is another class of the name ToyLayer"}));
  EXPECT_TRUE(Structure(model, {ScanMode::off, 0, {}}).reasons().empty());
}

TEST(ScanMode, AutoSaysWhereACycleEndsBetweenEqualLayers) {
  ToyModel model(1);
  for (bool bias : {true, false, true, true}) model.stack.emplace<ToyLayer>(3, bias);
  Structure structure(model, {});
  EXPECT_EQ(structure.plan(model.stack).runs,
            (std::vector<LayerRun>{{0, 2, 2, true}, {4, 1, 1, false}}));
  EXPECT_EQ(structure.reasons(),
            std::vector<std::string>{"layers.3 and layers.4 are alike, but another cycle ends or "
                                     "begins between them"});
}

TEST(ScanMode, AModelWithoutAStackIsLeftAlone) {
  Linear model(nullptr, "", {3, 3}, false);
  for (ScanMode mode : {ScanMode::off, ScanMode::automatic}) {
    Structure structure(model, {mode, 0, {}});
    EXPECT_EQ(structure.manifest().size(), 1u);
    EXPECT_TRUE(structure.manifest().plans().empty());
    EXPECT_TRUE(structure.reasons().empty());
  }
}

TEST(ScanMode, IsReadFromText) {
  EXPECT_EQ(parse_scan_mode("auto"), ScanMode::automatic);
  EXPECT_EQ(parse_scan_mode("off"), ScanMode::off);
  EXPECT_EQ(parse_scan_mode("force"), ScanMode::force);
}

// Carry, stacked outputs, and the gradients of loss = Σ carry² + Σ outputs by parameter path, with
// those of the carry and the per-layer inputs at the end.
std::map<std::string, std::vector<double>> results(ScanMode mode, const std::string& remat,
                                                   bool each) {
  constexpr int64_t kLayers = 4;
  ToyModel model(kLayers);
  Structure structure(model, {mode, 0, ops::parse_remat(remat)});
  Tensors inputs = parameters_of(structure);
  testing::Random random(5);
  inputs.push_back(random.tensor(DType::f32, {2, 3}, -1, 1));
  inputs.push_back(random.tensor(DType::f32, {kLayers, 2, 3}, -1, 1));
  auto f = testing::trace(testing::types_of(inputs), [&](ir::Function& g, const Values& v) {
    Context context(g, structure, {v.begin(), v.end() - 2});
    LayerResult r;
    if (each) {
      std::vector<Values> own;
      for (int64_t i = 0; i < kLayers; ++i) own.push_back({ops::select_index(v.back(), 0, i)});
      EachResult e = model.stack.run_each(context, {v[v.size() - 2]}, own, {});
      Values rows;
      for (const Values& o : e.outputs) rows.push_back(ops::reshape(o[0], {1, 2, 3}));
      r = {e.carry, {ops::concatenate(rows, 0)}};
    } else {
      r = model.stack.run(context, {v[v.size() - 2]}, {v.back()}, {});
    }
    Value loss =
        ops::reduce_sum(r.carry[0] * r.carry[0], {0, 1}) + ops::reduce_sum(r.outputs[0], {0, 1, 2});
    Values out{r.carry[0], r.outputs[0]};
    for (const Value& x : transform::gradient(loss, v)) out.push_back(x);
    return out;
  });
  Tensors got = testing::Executor().run(*f, inputs);
  std::map<std::string, std::vector<double>> named;
  auto put = [&](const std::string& name, const HostTensor& t, int64_t first, int64_t size) {
    for (int64_t i = first; i < first + size; ++i) named[name].push_back(t.at(i));
  };
  put("carry", got[0], 0, got[0].size());
  put("outputs", got[1], 0, got[1].size());
  for (size_t i = 0; i < structure.manifest().size(); ++i) {
    for (size_t m = 0; m < structure.members(i).size(); ++m) {
      put(structure.members(i)[m]->path(), got[2 + i], static_cast<int64_t>(m) * 9, 9);
    }
  }
  put("of carry", got[got.size() - 2], 0, 6);
  put("of inputs", got.back(), 0, got.back().size());
  return named;
}

TEST(LayerStack, ScannedEqualsUnrolled) {
  auto want = results(ScanMode::off, "none", false);
  ASSERT_EQ(want.size(), 8u);
  auto compare = [&](ScanMode mode, const std::string& remat, bool each) {
    SCOPED_TRACE(std::to_string(static_cast<int>(mode)) + " " + remat + (each ? " each" : ""));
    auto got = results(mode, remat, each);
    for (const auto& row : want) {
      const std::vector<double>& mine = got[row.first];
      ASSERT_EQ(mine.size(), row.second.size()) << row.first;
      for (size_t i = 0; i < mine.size(); ++i) {
        EXPECT_NEAR(mine[i], row.second[i], 1e-6 * (1 + std::abs(row.second[i]))) << row.first;
      }
    }
  };
  compare(ScanMode::force, "none", false);
  compare(ScanMode::force, "full", false);
  compare(ScanMode::off, "full", false);
  compare(ScanMode::force, "none", true);
  compare(ScanMode::off, "none", true);
}

}  // namespace
}  // namespace strata::nn
