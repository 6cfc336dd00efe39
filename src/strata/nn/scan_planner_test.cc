// Which runs the planner makes of lists of kinds, and that stacks of toys of these kinds compute
// what integer arithmetic says, however they are planned.
#include "strata/nn/scan_planner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "strata/base/json.h"
#include "strata/nn/toy_for_test.h"
#include "strata/ops/constant.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::LayerRun;

std::vector<int64_t> kinds_of(const std::string& letters) {
  std::vector<int64_t> out;
  for (char c : letters) out.push_back(c);
  return out;
}

struct PlanRow {
  const char* kinds;
  std::vector<LayerRun> automatic, force;
};

const PlanRow kPlans[] = {
    {"", {}, {}},
    {"a", {{0, 1, 1, false}}, {{0, 1, 1, true}}},
    {"aa", {{0, 1, 2, true}}, {{0, 1, 2, true}}},
    {"aaaaaaa", {{0, 1, 7, true}}, {{0, 1, 7, true}}},
    // No two alike.
    {"abc", {{0, 3, 1, false}}, {{0, 1, 1, true}, {1, 1, 1, true}, {2, 1, 1, true}}},
    // Hybrids: three linear layers and a full one.
    {"lllflllf", {{0, 4, 2, true}}, {{0, 4, 2, true}}},
    {"lllflllflllflllflllflllf", {{0, 4, 6, true}}, {{0, 4, 6, true}}},
    {"lllf", {{0, 1, 3, true}, {3, 1, 1, false}}, {{0, 1, 3, true}, {3, 1, 1, true}}},
    // A remainder is a run of its own.
    {"lllflllfll", {{0, 4, 2, true}, {8, 1, 2, true}}, {{0, 4, 2, true}, {8, 1, 2, true}}},
    {"lflflflfl", {{0, 2, 4, true}, {8, 1, 1, false}}, {{0, 2, 4, true}, {8, 1, 1, true}}},
    // Dense layers before those with experts.
    {"dmmmmm", {{0, 1, 1, false}, {1, 1, 5, true}}, {{0, 1, 1, true}, {1, 1, 5, true}}},
    {"dddmmm", {{0, 1, 3, true}, {3, 1, 3, true}}, {{0, 1, 3, true}, {3, 1, 3, true}}},
    {"dlllflllf", {{0, 1, 1, false}, {1, 4, 2, true}}, {{0, 1, 1, true}, {1, 4, 2, true}}},
    // Prefix, cycle and suffix of layers that are found nowhere else.
    {"pqabababrs",
     {{0, 2, 1, false}, {2, 2, 3, true}, {8, 2, 1, false}},
     {{0, 1, 1, true}, {1, 1, 1, true}, {2, 2, 3, true}, {8, 1, 1, true}, {9, 1, 1, true}}},
    // A pair in the middle.
    {"abba",
     {{0, 1, 1, false}, {1, 1, 2, true}, {3, 1, 1, false}},
     {{0, 1, 1, true}, {1, 1, 2, true}, {3, 1, 1, true}}},
    // A shorter first run pays: a b twice rather than a three times.
    {"aaabab", {{0, 1, 2, true}, {2, 2, 2, true}}, {{0, 1, 2, true}, {2, 2, 2, true}}},
    // The cycle of five that repeats, not the pairs inside it.
    {"ababcababc", {{0, 5, 2, true}}, {{0, 5, 2, true}}},
};

TEST(PlanRuns, FindsPrefixCyclesAndSuffix) {
  for (const PlanRow& row : kPlans) {
    SCOPED_TRACE(row.kinds);
    auto count = static_cast<int64_t>(std::string(row.kinds).size());
    EXPECT_EQ(plan_runs(kinds_of(row.kinds), ScanMode::automatic), row.automatic);
    EXPECT_EQ(plan_runs(kinds_of(row.kinds), ScanMode::force), row.force);
    std::vector<LayerRun> off;
    if (count > 0) off = {{0, count, 1, false}};
    EXPECT_EQ(plan_runs(kinds_of(row.kinds), ScanMode::off), off);
  }
}

TEST(PlanRuns, EveryPlanOfRandomKindsIsLawfulAndRepeatsOnlyWhatRepeats) {
  uint64_t seed = testing::test_seed();
  SCOPED_TRACE(seed);
  testing::Random random(seed);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> kinds;
    for (int64_t n = random.below(24); n >= 0; --n) kinds.push_back(random.below(3));
    for (ScanMode mode : {ScanMode::automatic, ScanMode::off, ScanMode::force}) {
      sharding::LayerPlan plan{"layers", plan_runs(kinds, mode)};
      sharding::check_plan(plan);
      ASSERT_EQ(plan.count(), static_cast<int64_t>(kinds.size()));
      for (const LayerRun& run : plan.runs) {
        EXPECT_TRUE(mode != ScanMode::force || run.scanned);
        if (!run.scanned) continue;
        EXPECT_TRUE(mode == ScanMode::force || run.repeats >= 2);
        for (int64_t i = run.cycle; i < run.layers(); ++i) {
          EXPECT_EQ(kinds[static_cast<size_t>(run.first + i)],
                    kinds[static_cast<size_t>(run.first + i - run.cycle)]);
        }
      }
      EXPECT_EQ(plan_runs(kinds, mode), plan.runs) << "another plan the second time";
    }
  }
}

TEST(EqualNeighbours, AreGroupedInsideTheCycle) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(equal_neighbours(kinds_of("lllflllf"), {0, 4, 2, true}), (Sizes{3, 1}));
  EXPECT_EQ(equal_neighbours(kinds_of("plffllplffllp"), {1, 6, 2, true}), (Sizes{1, 2, 2, 1}));
  EXPECT_EQ(equal_neighbours(kinds_of("aaa"), {0, 1, 3, true}), Sizes{1});
}

TEST(PlanRuns, AThousandLayersTakeNoTime) {
  std::vector<int64_t> kinds;
  for (int64_t i = 0; i < 1000; ++i) kinds.push_back(i % 4 == 3 ? 1 : 0);
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(plan_runs(kinds, ScanMode::automatic), (std::vector<LayerRun>{{0, 4, 250, true}}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// ---- Toys ---------------------------------------------------------------------------------------

// sum += power; order = 3 order + index. The index is a parameter of rank 0 and the power an input
// of the layer, both integers.
class CountingLayer : public Layer {
 public:
  CountingLayer(Module* parent, std::string name, std::string kind)
      : Layer(parent, std::move(name)),
        kind_(std::move(kind)),
        index_(this, "index", {DType::i64}) {}

  LayerResult forward(const Context& context, const Values& carry, const Values& inputs,
                      const TokenContext&) const override {
    Value three = ops::scalar(context.function(), DType::i64, 3);
    return {{carry[0] + inputs[0], carry[1] * three + context(index_)}, {}};
  }
  std::string describe() const override { return "CountingLayer(" + kind_ + ")"; }

 private:
  std::string kind_;
  Param index_;
};

struct CountingModel : Module {
  explicit CountingModel(const Json& kinds) : Module(nullptr, ""), stack(this, "layers") {
    for (const Json& kind : kinds) stack.emplace<CountingLayer>(kind.get<std::string>());
  }
  std::string describe() const override { return "CountingModel"; }
  LayerStack stack;
};

Tensors count(const CountingModel& model, const Structure& structure) {
  Tensors inputs;
  for (size_t i = 0; i < structure.manifest().size(); ++i) {
    inputs.emplace_back(DType::i64, structure.manifest().slots()[i].type.sizes());
    for (size_t k = 0; k < structure.members(i).size(); ++k) {
      std::string layer = structure.members(i)[k]->owner().name();
      inputs.back().set(static_cast<int64_t>(k), std::stod(layer));
    }
  }
  auto layers = static_cast<int64_t>(model.stack.size());
  HostTensor powers(DType::i64, {layers});
  for (int64_t i = 0; i < layers; ++i) powers.set(i, std::pow(10, i));
  inputs.push_back(std::move(powers));
  auto f = testing::trace(testing::types_of(inputs), [&](ir::Function& g, const Values& v) {
    Context context(g, structure, {v.begin(), v.end() - 1});
    Values start{ops::scalar(g, DType::i64, 0), ops::scalar(g, DType::i64, 1)};
    return model.stack.run(context, start, {v.back()}, {}).carry;
  });
  return testing::Executor().run(*f, inputs);
}

TEST(LayerPlans, EveryLayerRunsOnceAndInOrder) {
  Json cases = read_json(STRATA_SOURCE_DIR "/tests/testdata/nn/layer_plans.json");
  ASSERT_GE(cases.size(), 13u);
  for (const Json& row : cases) {
    CountingModel model(row["kinds"]);
    std::set<std::string> plans;
    for (ScanMode mode : {ScanMode::off, ScanMode::automatic, ScanMode::force}) {
      Structure structure(model, {mode, 0, {}});
      SCOPED_TRACE(row["name"].get<std::string>() + ", " + structure.plan(model.stack).text());
      Tensors got = count(model, structure);
      EXPECT_EQ(got[0].at(0), row["sum"].get<double>());
      EXPECT_EQ(got[1].at(0), row["order"].get<double>());
      plans.insert(structure.plan(model.stack).text());
    }
    EXPECT_GE(plans.size(), 2u) << "force unrolls nothing, off everything";
  }
}

}  // namespace
}  // namespace strata::nn
