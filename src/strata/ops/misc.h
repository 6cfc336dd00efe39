// Ops that speak to the compiler rather than compute.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kCustomCall, kOptimizationBarrier, kPlacement, kShardingConstraint;

// The same values, which the compiler may not move computations across: everything after uses
// them as if they were new. The cotangents pass a barrier of their own.
ir::Values optimization_barrier(const ir::Values& values);

// x, laid out over the mesh as `sharding` says: Shardy's text, such as
// `#sdy.sharding<@mesh, [{"data"}, {}]>`. The function's module_header must declare the mesh. The
// cotangent gets the same constraint.
ir::Value sharding_constraint(ir::Value x, std::string_view sharding);

struct CustomCall {
  std::string target;
  std::vector<ir::Type> results;
  // For api_version 4 (typed FFI) the text of an MLIR dictionary, before that an opaque string.
  std::string backend_config = {};
  int api_version = 4;
  bool has_side_effect = false;
  std::string frontend_attributes = {};  // the text of an MLIR dictionary for the compiler
};
// A function registered with the plug-in under `target`. No gradient rule: differentiating it
// throws Unimplemented. Throws invalid_argument "ops.custom_call" without target or operand.
ir::Values custom_call(const ir::Values& operands, const CustomCall& call);

// x kept in memory `kind` of its device: "pinned_host" for the host's, "device" to bring it back.
// For plug-ins with such a memory; compiling it for others is unimplemented "runtime.memory_kind".
ir::Value placed(ir::Value x, std::string_view kind);
// x placed as the lowered `node` places its operand; null when that is no placement.
ir::Value placed_like(const ir::Node& node, ir::Value x);

}  // namespace strata::ops
