#include "strata/ops/misc.h"

#include "strata/ops/rules.h"

namespace strata::ops {

constexpr OpDef kOptimizationBarrier{
    .name = "optimization_barrier",
    .arity = -1,
    .shape = [](const Node& n) -> std::vector<Type> {
      std::vector<Type> types;
      for (const Value& v : n.operands) types.push_back(v.type());
      return types;
    },
    .gradient = ir::rule([](Node&, std::span<const Value> c) -> Values {
      return optimization_barrier({c.begin(), c.end()});
    }),
};

Values optimization_barrier(const Values& xs) {
  Value first = emit(kOptimizationBarrier, xs);
  Values out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(first.node->result(static_cast<int>(i)));
  return out;
}

}  // namespace strata::ops
