#include "strata/ops/sort.h"

#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/rules.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

std::vector<Type> sort_shape(const Node& n) {
  int64_t axis = n.attributes.get<int64_t>("axis");
  const Value& key = n.operands[0];
  std::vector<Type> out;
  bool fits = axis >= 0 && axis < key.rank();
  for (const Value& v : n.operands) {
    fits = fits && v.dims() == key.dims();
    out.push_back(v.type());
  }
  if (!fits) {
    misuse(n, "operands of equal dims with an axis " + std::to_string(axis), operand_types(n));
  }
  return out;
}

// Sorting the positions along gives the permutation; sorting the cotangents by it undoes it.
Values sort_gradient(Node& n, Cotangents c) {
  int64_t axis = n.attributes.get<int64_t>("axis");
  Value key = n.operands[0];
  Values back{argsort(key, axis, n.attributes.get<bool>("descending"))};
  for (const Value& v : c) {
    if (v) back.push_back(v);
  }
  back = sort(back, axis);
  Values out(c.size());
  size_t at = 1;
  for (size_t i = 0; i < c.size(); ++i) {
    if (c[i]) out[i] = back[at++];
  }
  return out;
}

std::vector<Type> top_k_shape(const Node& n) {
  const Type& x = n.operands[0].type();
  int64_t k = n.attributes.get<int64_t>("k");
  if (x.rank() == 0 || x.dtype == DType::pred || k < 0 || k > x.dims.back()) {
    misuse(n, "numbers with a last axis of at least k = " + std::to_string(k), ir::text(x));
  }
  Dims dims = x.dims;
  dims.back() = k;
  return {{x.dtype, dims}, {DType::i32, dims}};
}

Values top_k_gradient(Node& n, Cotangents c) {
  if (!c[0]) return {Value{}};
  return {put_along_axis(n.operands[0], n.result(1), c[0], -1)};
}

}  // namespace

constexpr OpDef kSort{
    .name = "sort",
    .arity = -1,
    .shape = sort_shape,
    .gradient = ir::rule(sort_gradient),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"dimension", std::to_string(n.attributes.get<int64_t>("axis")) + " : i64"},
              {"is_stable", "true"}};
    },
};

constexpr OpDef kTopK{
    .name = "top_k",
    .arity = 1,
    .shape = top_k_shape,
    .gradient = ir::rule(top_k_gradient),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"k", std::to_string(n.attributes.get<int64_t>("k")) + " : i64"}};
    },
    .dialect = "chlo",
};

Values sort(const Values& operands, int64_t axis, bool descending) {
  if (operands.empty()) {
    fail({.id = "ops.sort", .where = "sort", .expected = "at least one operand", .got = "none"});
  }
  Function& f = operands[0].function();
  axis = normal_axis(axis, operands[0].rank(), "sort");
  ir::RegionScope scope(f);
  Values sides;
  for (const Value& v : operands) {
    Value left = scope.parameter({v.dtype(), {}});
    Value right = scope.parameter({v.dtype(), {}});
    if (sides.empty()) sides = {left, right};
  }
  scope.close({compare_total(sides[0], sides[1], descending ? "GT" : "LT")});
  std::vector<std::unique_ptr<ir::Region>> regions;
  regions.push_back(scope.take());
  Node& node =
      f.add(kSort, operands, {{"axis", axis}, {"descending", descending}}, std::move(regions));
  Values out;
  for (size_t i = 0; i < operands.size(); ++i) out.push_back(node.result(static_cast<int>(i)));
  return out;
}

Value argsort(Value x, int64_t axis, bool descending) {
  axis = normal_axis(axis, x.rank(), "argsort");
  Value positions = iota(x.function(), DType::i32, x.dims(), axis);
  return sort({x, positions}, axis, descending)[1];
}

TopK top_k(Value x, int64_t k) {
  Node& node = x.function().add(kTopK, {x}, {{"k", k}});
  return {node.result(0), node.result(1)};
}

}  // namespace strata::ops
