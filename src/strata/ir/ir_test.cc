// Order of nodes, regions and copies.
#include "strata/ir/ir.h"

#include <gtest/gtest.h>

namespace strata::ir {
namespace {

std::vector<Type> first_type(const Node& n) { return {n.operands[0].type()}; }

constexpr OpDef kOne{.name = "one", .arity = 1, .shape = first_type};
constexpr OpDef kPair{.name = "pair", .arity = 2, .shape = first_type};
constexpr OpDef kLiteral{.name = "literal", .arity = 0, .shape = [](const Node&) {
                           return std::vector<Type>{{DType::f32, {}}};
                         }};

const Type kScalar{DType::f32, {}};

TEST(PostOrder, OperandsBeforeUsersLeftToRightWithoutDeadNodes) {
  Function f;
  Value x = f.parameter(kScalar);
  Node& right = f.add(kOne, {x});
  Node& left = f.add(kOne, {x});
  f.add(kOne, {x});  // dead
  Node& root = f.add(kPair, {left.result(), right.result()});
  Values results{root.result()};
  EXPECT_EQ(post_order(results, &f.top()), (std::vector<Node*>{x.node, &left, &right, &root}));
}

TEST(PostOrder, IsNotRecursive) {
  Function f;
  Value x = f.parameter(kScalar);
  for (int i = 0; i < 200000; ++i) x = f.add(kOne, {x}).result();
  EXPECT_EQ(post_order(Values{x}, nullptr).size(), 200001u);
}

TEST(RegionScope, CapturesEachOuterValueOnceAndCopiesConstants) {
  Function f;
  Value x = f.parameter(kScalar);
  Value constant = f.add(kLiteral, {}).result();
  RegionScope scope(f);
  Value inner = scope.parameter(kScalar);
  Value sum = f.add(kPair, {inner, x}).result();
  sum = f.add(kPair, {sum, x}).result();
  sum = f.add(kPair, {sum, constant}).result();
  Values captured = scope.close({sum, x});
  std::unique_ptr<Region> region = scope.take();
  EXPECT_EQ(captured, Values{x});
  ASSERT_EQ(region->params.size(), 2u);
  EXPECT_EQ(region->results[1], region->params[1]);
  for (Node* n : post_order(region->results, nullptr)) EXPECT_EQ(n->home, region.get());
  EXPECT_EQ(&f.current(), &f.top());
}

TEST(CopyValues, KeepsWhatTheMapHasAndSharesTheRest) {
  Function from, to;
  Value x = from.parameter(kScalar);
  Value shared = from.add(kOne, {x}).result();
  Value root = from.add(kPair, {shared, shared}).result();
  ValueMap map{{x, to.parameter(kScalar)}};
  Value copy = copy_values(to, Values{root}, map)[0];
  EXPECT_EQ(copy.node->function, &to);
  EXPECT_EQ(copy.node->operands[0], copy.node->operands[1]);
  EXPECT_EQ(to.node_count(), 3u);
  ValueMap empty;
  EXPECT_THROW(copy_values(to, Values{root}, empty), Error);
}

TEST(NameScope, NestsAndRestores) {
  Function f;
  Value x = f.parameter(kScalar);
  {
    NameScope model(f, "model");
    NameScope layer(f, "layers.3");
    EXPECT_EQ(place(f.add(kOne, {x})), "one at model/layers.3");
    LocationScope there(f, "elsewhere");
    EXPECT_EQ(f.add(kOne, {x}).loc, "elsewhere");
  }
  EXPECT_EQ(f.scope(), "");
}

}  // namespace
}  // namespace strata::ir
