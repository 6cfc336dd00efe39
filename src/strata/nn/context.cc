#include "strata/nn/context.h"

#include "strata/base/error.h"

namespace strata::nn {

Context::Context(ir::Function& function, const Structure& structure, const ir::Values& slots)
    : function_(&function), structure_(&structure) {
  const auto& declared = structure.manifest().slots();
  require(slots.size() == declared.size(), {.id = "nn.slot_count",
                                            .where = "parameters",
                                            .expected = std::to_string(declared.size()) + " values",
                                            .got = std::to_string(slots.size())});
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].dims() != declared[i].type.sizes()) {
      fail({.id = "nn.slot_dims",
            .where = declared[i].name,
            .expected = text_of(declared[i].type),
            .got = ir::text(slots[i].type())});
    }
    // A stacked slot stands under its first layer's parameter: the layer that the loop traces.
    values_[structure.members(i).front()] = slots[i];
  }
}

ir::Value Context::operator()(const Param& param) const {
  auto it = values_.find(&param);
  if (it == values_.end()) invariant(false, "nn.unbound_param", "a value for " + param.path());
  return it->second;
}

Context Context::with(std::span<const Param* const> params, const ir::Values& values) const {
  Context copy = *this;
  for (size_t i = 0; i < params.size(); ++i) copy.values_[params[i]] = values[i];
  return copy;
}

}  // namespace strata::nn
