// Context: what a module sees while it is traced: the function, and the value of each parameter.
#pragma once

#include <span>
#include <unordered_map>

#include "strata/ir/ir.h"
#include "strata/nn/module.h"
#include "strata/nn/structure.h"

namespace strata::nn {

// Copies are cheap enough to make one per traced layer. Valid while function and structure live.
class Context {
 public:
  // `slots[i]` is the value of the structure's slot i: of its type but for the element type, which
  // is the one to compute in. Throws invalid_argument naming the first slot that does not fit.
  Context(ir::Function& function, const Structure& structure, const ir::Values& slots);

  ir::Function& function() const { return *function_; }
  const Structure& structure() const { return *structure_; }
  // The value of a parameter. Throws internal for one that is not bound here (a layer of a scanned
  // run outside its loop).
  ir::Value operator()(const Param& param) const;
  // The same context with `params` bound to `values` as well.
  Context with(std::span<const Param* const> params, const ir::Values& values) const;

 private:
  ir::Function* function_;
  const Structure* structure_;
  std::unordered_map<const Param*, ir::Value> values_;
};

}  // namespace strata::nn
