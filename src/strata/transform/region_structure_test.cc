// What a differentiated scan carries, saves and prints.
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/ops/arithmetic.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/reduce.h"
#include "strata/testing/executor.h"
#include "strata/testing/golden.h"
#include "strata/transform/vjp.h"

namespace strata::transform {
namespace {

using ir::Function;
using ir::Type;
using ir::Value;
using ir::Values;
using ops::Step;

const Type kHidden{DType::f32, {2, 3}};
const Type kWeights{DType::f32, {4, 3, 3}};  // one matrix a step
const Type kBias{DType::f32, {3}};           // the same in every step

// h' = tanh(h wᵀ) · b over four steps, and the gradients of all three.
Values scan_with_gradient(Function& f, const Values& v, const std::string& remat) {
  ops::ScanOptions o;
  o.length = 4;
  o.remat = ops::parse_remat(remat);
  Value h = ops::scan(f, {v[0]}, {v[1]}, o, [&](Value, const Values& c, const Values& w) {
              return Step{{ops::tanh(ops::linear(c[0], w[0])) * v[2]}, {}};
            }).carry[0];
  Value loss = ops::reduce_sum(h, {0, 1});
  Values out{loss};
  for (const Value& g : gradient(loss, v)) out.push_back(g);
  return out;
}

std::unique_ptr<Function> traced(const std::string& remat) {
  return testing::trace({kHidden, kWeights, kBias}, [&](Function& f, const Values& v) {
    return scan_with_gradient(f, v, remat);
  });
}

// The scans of a program in order: forward, reverse.
std::vector<const ir::Node*> scans(const Function& f) {
  std::vector<const ir::Node*> out;
  for (const ir::Node* n : ir::post_order(f.top().results, &f.top())) {
    if (n->def == &ops::kScan) out.push_back(n);
  }
  return out;
}

int64_t count(const ir::Node& n, const Type& t) {
  return std::count(n.results.begin(), n.results.end(), t);
}

TEST(ScanGradient, LoopsNeverReturnWeights) {
  for (const char* remat : {"none", "dots", "full", "names:x"}) {
    SCOPED_TRACE(remat);
    auto f = traced(remat);
    std::vector<const ir::Node*> found = scans(*f);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(count(*found[0], kWeights), 0);
    EXPECT_EQ(count(*found[0], kBias), 0);
    EXPECT_EQ(count(*found[0], {DType::f32, {4, 3}}), 0);  // a stack of biases
    // The cotangent of h, the sum for b, the gradients of the stacked w.
    EXPECT_EQ(found[1]->results, (std::vector<Type>{kHidden, kBias, kWeights}));
  }
}

TEST(ScanGradient, SavesWhatThePolicySays) {
  const Type stack{DType::f32, {4, 2, 3}};
  EXPECT_EQ(count(*scans(*traced("full"))[0], stack), 1);     // h
  EXPECT_EQ(count(*scans(*traced("names:x"))[0], stack), 1);  // no such tag: as full
  EXPECT_EQ(count(*scans(*traced("dots"))[0], stack), 2);     // h and the product
  EXPECT_EQ(count(*scans(*traced("none"))[0], stack), 3);     // h, tanh and its slope 1 - tanh²
}

// Kinds of memory that the values of a region are moved to, in order.
std::vector<std::string> placements(const ir::Region& region) {
  std::vector<std::string> out;
  for (const ir::Node* n : ir::post_order(region.results, &region)) {
    if (n->def == &ops::kPlacement) out.push_back(n->attributes.get<std::string>("kind"));
  }
  return out;
}

TEST(ScanGradient, OffloadedValuesWaitInHostMemory) {
  auto f = traced("offload:x");
  std::vector<const ir::Node*> found = scans(*f);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(placements(*found[0]->regions[0]), (std::vector<std::string>{"pinned_host"}));  // h
  EXPECT_EQ(placements(*found[1]->regions[0]), (std::vector<std::string>{"device"}));
  EXPECT_EQ(placements(*scans(*traced("names:x"))[0]->regions[0]), std::vector<std::string>{});
}

TEST(ScanGradient, AnUnusedInputHasANullGradient) {
  Function f;
  Value x = f.parameter(kHidden), unused = f.parameter(kBias);
  Values g = vjp({ops::sine(x)}, {x}, {x, unused});
  EXPECT_TRUE(g[0]);
  EXPECT_FALSE(g[1]);
  EXPECT_FALSE(vjp({ops::sine(x)}, {Value{}}, {x})[0]);
}

TEST(ScanGradient, PrintsTheGoldenText) {
  testing::expect_golden("transform/scan_gradient_full.mlir",
                         testing::program_text(*traced("full")));
  testing::expect_golden("transform/scan_gradient_none.mlir",
                         testing::program_text(*traced("none")));
}

}  // namespace
}  // namespace strata::transform
