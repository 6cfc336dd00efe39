#include "strata/optim/ema.h"

#include <fmt/format.h>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/elementwise.h"

namespace strata::optim {

std::vector<SlotSpec> ema_slots(std::span<const Parameter> parameters) {
  std::vector<SlotSpec> slots;
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::string name = "ema/" + parameters[i].name;
    sharding::ParamType type = derived_type(parameters[i].type, {}, DType::f32, name);
    slots.push_back({std::move(name),
                     static_cast<int64_t>(i),
                     {},
                     std::move(type),
                     SlotSpec::Initial::parameter});
  }
  return slots;
}

std::vector<NamedScalar> ema_scalars(double decay) {
  check_beta("ema", "decay", decay);
  return {{"ema_decay", decay}, {"one_minus_ema_decay", 1 - decay}};
}

ir::Values ema(const ir::Values& averages, const ir::Values& parameters, const ir::Values& scalars,
               ir::Value applied) {
  require(averages.size() == parameters.size() && scalars.size() == 2,
          {.id = "optim.ema",
           .where = "weight average",
           .expected = fmt::format("{} averages and 2 scalars", parameters.size()),
           .got = fmt::format("{} and {}", averages.size(), scalars.size())});
  ir::Values next;
  for (size_t i = 0; i < averages.size(); ++i) {
    ir::Value e = scalars[0] * averages[i] + scalars[1] * parameters[i];
    next.push_back(ops::select(applied, e, averages[i]));
  }
  return next;
}

}  // namespace strata::optim
