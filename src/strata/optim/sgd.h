// Stochastic gradient descent with momentum.
#pragma once

#include <memory>

#include "strata/optim/optimizer.h"

namespace strata::optim {

//   T <- g + momentum T
//   u  = nesterov ? g + momentum T : T          (T after its update)
//   p <- p - lr (u + weight_decay p)
// Slot: sgd.trace, which does not exist at momentum 0 (so only a change from or to 0 changes the
// program). Source: optax 0.2.8 `sgd` (`trace`); decay is decoupled here, where PyTorch adds it to
// the gradient before the momentum.
struct SgdConfig {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  DType trace_dtype = DType::f32;  // f32 or bf16
};

// Throws invalid_argument optim.hyper_parameter, optim.slot_dtype, or optim.sgd_nesterov (Nesterov
// without momentum).
std::shared_ptr<const Optimizer> make_sgd(const SgdConfig& config = {});

}  // namespace strata::optim
