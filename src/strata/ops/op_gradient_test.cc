// The gradient of every op by central differences, by family.
#include <gtest/gtest.h>

#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/op_rows.h"
#include "strata/testing/op_harness.h"

namespace strata::ops {
namespace {

using ir::Function;
using ir::Value;

void check(const Rows& rows) {
  testing::Executor executor;
  for (const testing::OpRow& row : rows) testing::check_gradient(executor, row);
}

TEST(OpGradients, Control) { check(control_rows()); }
TEST(OpGradients, Elementwise) { check(elementwise_rows()); }
TEST(OpGradients, Index) { check(index_rows()); }
TEST(OpGradients, Matrix) { check(matrix_rows()); }
TEST(OpGradients, Misc) { check(misc_rows()); }
TEST(OpGradients, Reduce) { check(reduce_rows()); }
TEST(OpGradients, Shape) { check(shape_rows()); }

// Rounding is a staircase to differences; its gradient is that of the identity, rounded on the way
// back.
TEST(OpGradients, OfConvertPassesBetweenFloatsOnly) {
  Function f;
  Value x = f.parameter({DType::f32, {3}});
  Value c = f.parameter({DType::bf16, {3}});
  Value g = testing::vjp({convert(x, DType::bf16)}, {c}, {x})[0];
  EXPECT_EQ(ir::text(g.type()), "3xf32");
  EXPECT_EQ(g.node->def, &kConvert);
  EXPECT_EQ(g.node->operands[0], c);
  Value whole = convert(convert(x, DType::i32), DType::f32);
  EXPECT_FALSE(testing::vjp({whole}, {full_like(whole, 1)}, {x})[0]);
}

TEST(OpGradients, OfAShardingConstraintIsConstrainedAlike) {
  Function f;
  Value x = f.parameter({DType::f32, {4}});
  const char* sharding = "#sdy.sharding<@mesh, [{\"data\"}]>";
  Value y = sharding_constraint(x, sharding);
  Value g = testing::vjp({y}, {full_like(y, 1)}, {x})[0];
  EXPECT_EQ(g.node->def, &kShardingConstraint);
  EXPECT_EQ(g.node->attributes.get<std::string>("sharding"), sharding);
}

TEST(OpGradients, OfABarrierPassOne) {
  Function f;
  Value x = f.parameter({DType::f32, {4}});
  Value y = optimization_barrier({x})[0];
  EXPECT_EQ(testing::vjp({y}, {full_like(y, 1)}, {x})[0].node->def, &kOptimizationBarrier);
}

}  // namespace
}  // namespace strata::ops
