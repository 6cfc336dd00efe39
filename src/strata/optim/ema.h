// Weight average: an exponential moving average of the parameters, kept in float32. Traced; pure.
#pragma once

#include <span>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/optim/optimizer.h"

namespace strata::optim {

// "ema/<parameter>", like the parameter; starts as its copy.
std::vector<SlotSpec> ema_slots(std::span<const Parameter> parameters);

// The scalar inputs that `ema` reads: decay and 1 - decay, formed in double. Throws
// invalid_argument (optim.hyper_parameter) unless decay is in [0, 1).
std::vector<NamedScalar> ema_scalars(double decay);

// e <- decay e + (1 - decay) p, of the parameters after the update; where `applied` (a rank-0
// predicate) is false, e keeps its bits. Throws invalid_argument (optim.ema) when the numbers of
// averages, parameters or scalars do not fit.
ir::Values ema(const ir::Values& averages, const ir::Values& parameters, const ir::Values& scalars,
               ir::Value applied);

}  // namespace strata::optim
