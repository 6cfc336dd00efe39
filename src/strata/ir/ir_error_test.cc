// Misuse of the builder is an error that names the op and its place.
#include <gtest/gtest.h>

#include "strata/ir/ir.h"
#include "strata/testing/errors.h"

namespace strata::ir {
namespace {

using strata::testing::expect_error;

std::vector<Type> first_type(const Node& n) { return {n.operands[0].type()}; }

constexpr OpDef kPair{.name = "pair", .arity = 2, .shape = first_type};

const Type kVector{DType::f32, {3}};

TEST(FunctionErrors, WrongNumberOfOperands) {
  Function f;
  Value x = f.parameter(kVector);
  NameScope name(f, "model/layers.3");
  expect_error(Code::invalid_argument, "ir.arity", "pair at model/layers.3",
               [&] { f.add(kPair, {x}); });
  expect_error(Code::invalid_argument, "ir.arity", "2 operands", [&] { f.add(kPair, {x, x, x}); });
}

TEST(FunctionErrors, ForeignAndNullOperands) {
  Function f, other;
  Value x = f.parameter(kVector), y = other.parameter(kVector);
  expect_error(Code::invalid_argument, "ir.foreign_value", "another function", [&] {
    f.add(kPair, {x, y});
  });
  expect_error(Code::invalid_argument, "ir.foreign_value", "null value", [&] {
    f.add(kPair, {x, {}});
  });
}

TEST(FunctionErrors, ForeignAndNullResults) {
  Function f("step"), other;
  Value x = f.parameter(kVector), y = other.parameter(kVector);
  expect_error(Code::invalid_argument, "ir.foreign_result", "another function", [&] {
    f.set_results({x, y});
  });
  expect_error(Code::invalid_argument, "ir.foreign_result", "step", [&] { f.set_results({{}}); });
  EXPECT_TRUE(f.top().results.empty());
}

TEST(ValueErrors, AxisOutsideTheRank) {
  Function f;
  Value x = f.parameter({DType::f32, {3, 5}});
  EXPECT_EQ(x.dim(-1), 5);
  EXPECT_EQ(x.dim(0), 3);
  expect_error(Code::out_of_range, "ir.axis", "2", [&] { x.dim(2); });
  expect_error(Code::out_of_range, "ir.axis", "-3", [&] { x.dim(-3); });
}

}  // namespace
}  // namespace strata::ir
