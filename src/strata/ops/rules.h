// What the op families share: emitting a node, checks of shape rules, texts of attributes.
// Internal to room ops.
#pragma once

#include <initializer_list>
#include <string>

#include "strata/ir/ir.h"

namespace strata::ops {

using ir::Attributes;
using ir::AttributeTexts;
using ir::Cost;
using ir::Function;
using ir::Gradient;
using ir::Node;
using ir::NoGradient;
using ir::NoRuleYet;
using ir::OpDef;
using ir::Type;
using ir::Value;
using ir::Values;

// Adds a one-result node to the function of the first operand.
Value emit(const OpDef& def, Values operands, Attributes attributes = {});

// Throws invalid_argument "place: expected E, got G" with id ops.<op>.
[[noreturn]] void misuse(const Node& node, std::string expected, std::string got);

// "2x3xf32 and 4xf32": the operands' types.
std::string operand_types(const Node& node);

// Checks that `axis` is in [0, rank) and returns it; negative axes count from the end.
int64_t normal_axis(int64_t axis, int64_t rank, std::string_view op);

// Sorted, unique, normalised axes.
Dims normal_axes(Dims axes, int64_t rank, std::string_view op);

// The dims without those at `axes` (sorted).
Dims without(const Dims& dims, const Dims& axes);

// "array<i64: 0, 1>".
std::string array_text(const Dims& values);

// The zero of a value's type, as a broadcast constant.
Value zeros_like(const Value& x);

}  // namespace strata::ops
