#include "strata/ops/rules.h"

#include <algorithm>

#include "strata/ops/constant.h"

namespace strata::ops {

Value emit(const OpDef& def, Values operands, Attributes attributes) {
  if (operands.empty() || !operands.front()) {
    fail({.id = "ops.null_operand",
          .where = std::string(def.name),
          .expected = "operands that are values",
          .got = "a null value"});
  }
  Function& f = operands.front().function();
  return f.add(def, std::move(operands), std::move(attributes)).result();
}

void misuse(const Node& node, std::string expected, std::string got) {
  std::string id = "ops." + std::string(node.def->name);
  fail({.id = id, .where = place(node), .expected = std::move(expected), .got = std::move(got)});
}

std::string operand_types(const Node& node) {
  std::string text;
  for (const Value& v : node.operands) text += (text.empty() ? "" : " and ") + ir::text(v.type());
  return text.empty() ? "no operands" : text;
}

int64_t normal_axis(int64_t axis, int64_t rank, std::string_view op) {
  int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    fail({.id = "ops.axis",
          .where = std::string(op),
          .expected = "an axis in [" + std::to_string(-rank) + ", " + std::to_string(rank) + ")",
          .got = std::to_string(axis)});
  }
  return at;
}

Dims normal_axes(Dims axes, int64_t rank, std::string_view op) {
  for (int64_t& a : axes) a = normal_axis(a, rank, op);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    fail({.id = "ops.repeated_axis",
          .where = std::string(op),
          .expected = "distinct axes",
          .got = array_text(axes)});
  }
  return axes;
}

Dims without(const Dims& dims, const Dims& axes) {
  Dims kept;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i))) {
      kept.push_back(dims[i]);
    }
  }
  return kept;
}

std::string array_text(const Dims& values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + std::to_string(values[i]);
  }
  return text + ">";
}

Value zeros_like(const Value& x) { return full_like(x, 0.0); }

}  // namespace strata::ops
