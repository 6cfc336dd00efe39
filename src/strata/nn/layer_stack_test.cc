// Which stacks run as loops, and why others do not.
#include "strata/nn/layer_stack.h"

#include <gtest/gtest.h>

#include "strata/nn/toy_for_test.h"

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
                "layers.2 and layers.3 differ: linear.weight is f32[3, 3] in layers.2, "
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

}  // namespace
}  // namespace strata::nn
