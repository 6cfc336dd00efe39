// Misuse of differentiation.
#include <gtest/gtest.h>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/elementwise.h"
#include "strata/testing/errors.h"
#include "strata/transform/vjp.h"

namespace strata::transform {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;
using strata::testing::expect_error;

TEST(VjpErrors, CotangentCount) {
  Function f;
  Value x = f.parameter({DType::f32, {3}});
  expect_error(Code::invalid_argument, "transform.cotangent_count", "2 for 1", [&] {
    vjp({x}, {x, x}, {x});
  });
}

TEST(VjpErrors, CotangentType) {
  Function f;
  Value x = f.parameter({DType::f32, {3}}), wrong = f.parameter({DType::bf16, {3}});
  Value y = ops::sine(x);
  expect_error(Code::invalid_argument, "transform.cotangent_type", "sine",
               [&] { vjp({y}, {wrong}, {x}); });
}

TEST(VjpErrors, LossType) {
  Function f;
  Value x = f.parameter({DType::f32, {3}}), count = f.parameter({DType::i32, {}});
  constexpr auto kId = "transform.loss_type";
  expect_error(Code::invalid_argument, kId, "rank-0", [&] { gradient(x, {x}); });
  expect_error(Code::invalid_argument, kId, "i32", [&] { gradient(count, {x}); });
  expect_error(Code::invalid_argument, kId, "null", [&] { gradient({}, {x}); });
}

TEST(VjpErrors, LoopsOfUnknownLengthHaveNoGradient) {
  Function f;
  Value x = f.parameter({DType::f32, {}});
  ir::NameScope name(f, "model/loop");
  Value y = ops::while_loop(
      f, {x}, [](const Values& v) { return ops::compare(v[0], ops::full_like(v[0], 9), "LT"); },
      [](const Values& v) -> Values { return {v[0] * 2.0}; })[0];
  expect_error(Code::unimplemented, "transform.no_gradient_rule", "while at model/loop",
               [&] { gradient(y, {x}); });
  // Off the way, or behind stop_gradient, it may stand.
  Value z = x * ops::stop_gradient(y);
  EXPECT_EQ(gradient(z, {x})[0].type(), x.type());
}

}  // namespace
}  // namespace strata::transform
