#include "strata/ops/linalg.h"

#include <numeric>

#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

TriangularSolve how_of(const Node& n) {
  const Attributes& a = n.attributes;
  return {a.get<bool>("left"), a.get<bool>("lower"), a.get<bool>("unit_diagonal"),
          a.get<bool>("transpose")};
}

std::vector<Type> solve_shape(const Node& n) {
  const Type &a = n.operands[0].type(), &b = n.operands[1].type();
  bool fits = a.dtype == b.dtype && is_float(a.dtype) && a.rank() >= 2 && b.rank() == a.rank();
  if (fits) {
    size_t last = a.dims.size() - 1;
    int64_t size = b.dims[how_of(n).left ? last - 1 : last];
    fits = a.dims[last] == a.dims[last - 1] && size == a.dims[last] &&
           std::equal(a.dims.begin(), a.dims.end() - 2, b.dims.begin());
  }
  if (!fits) {
    misuse(n, "square matrices and right sides of their size, batch dims and floating type",
           operand_types(n));
  }
  return {b};
}

// x·yᵀ over the last two axes.
Value times_transposed(Value x, Value y) {
  Dims batch(x.dims().size() - 2);
  std::iota(batch.begin(), batch.end(), 0);
  return dot_general(x, y,
                     {.lhs_batch = batch,
                      .rhs_batch = batch,
                      .lhs_contract = {x.rank() - 1},
                      .rhs_contract = {y.rank() - 1}});
}

Value transpose_last(Value x) {
  Dims order(x.dims().size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

// With dB the solution for the transposed system: left d op(A) = -dB Xᵀ, right -Xᵀ dB. Only the
// triangle that was read gets a gradient.
Values solve_gradient(Node& n, Cotangents c) {
  TriangularSolve how = how_of(n);
  Value a = n.operands[0], x = n.result();
  TriangularSolve back = how;
  back.transpose = !how.transpose;
  Value db = triangular_solve(a, c[0], back);
  Value first = how.left ? db : transpose_last(x);
  Value second = how.left ? x : transpose_last(db);
  Value da = how.transpose ? times_transposed(second, first) : times_transposed(first, second);
  Value row = iota(*n.function, DType::i32, a.dims(), a.rank() - 2);
  Value column = iota(*n.function, DType::i32, a.dims(), a.rank() - 1);
  std::string_view below = how.unit_diagonal ? "GT" : "GE";
  Value read = how.lower ? compare(row, column, below) : compare(column, row, below);
  return {select(read, negate(da), zeros_like(da)), db};
}

AttributeTexts print_solve(const Node& n) {
  TriangularSolve how = how_of(n);
  auto flag = [](bool on) { return std::string(on ? "true" : "false"); };
  return {{"left_side", flag(how.left)},
          {"lower", flag(how.lower)},
          {"unit_diagonal", flag(how.unit_diagonal)},
          {"transpose_a", how.transpose ? "#stablehlo<transpose TRANSPOSE>"
                                        : "#stablehlo<transpose NO_TRANSPOSE>"}};
}

}  // namespace

constexpr OpDef kTriangularSolve{
    .name = "triangular_solve",
    .arity = 2,
    .shape = solve_shape,
    .gradient = ir::rule(solve_gradient),
    .print = print_solve,
};

Value triangular_solve(Value a, Value b, TriangularSolve how) {
  return emit(kTriangularSolve, {a, b},
              {{"left", how.left},
               {"lower", how.lower},
               {"unit_diagonal", how.unit_diagonal},
               {"transpose", how.transpose}});
}

}  // namespace strata::ops
