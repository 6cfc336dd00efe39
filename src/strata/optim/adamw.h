// AdamW: Adam with decoupled weight decay.
#pragma once

#include <memory>

#include "strata/optim/optimizer.h"

namespace strata::optim {

// With t = count + 1:
//   m <- b1 m + (1 - b1) g            v <- b2 v + (1 - b2) g^2
//   u  = (m / c1) / (sqrt(v / c2 + eps_root) + eps),   c1 = 1 - b1^t,  c2 = 1 - b2^t
//   p <- p - lr (u + weight_decay p)
// and with `nesterov` (Dozat 2016, "Incorporating Nesterov momentum into Adam")
//   m / c1  becomes  b1 m / (1 - b1^(t+1)) + (1 - b1) g / c1.
// Slots: adam.m and adam.v. Sources: arXiv 1412.6980, 1711.05101; optax 0.2.8 `adamw`, except that
// 1 - b and the powers are formed in double on the host (optax's float32 powers put its first
// update 7e-6 off).
//
// The defaults are optax's: weight decay 1e-4, where PyTorch has 1e-2.
struct AdamWConfig {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;    // outside the root, after the bias correction; >= 1.2e-38
  double eps_root = 0;  // inside the root
  double weight_decay = 1e-4;
  bool nesterov = false;
  // What m is stored in: f32 or bf16; the update then reads the rounded m. v is always f32: at
  // b2 = 0.999 a bf16 v can neither decay nor grow, since b2 rounds to 1.
  DType m_dtype = DType::f32;
};

// Throws invalid_argument optim.hyper_parameter or optim.slot_dtype.
std::shared_ptr<const Optimizer> make_adamw(const AdamWConfig& config = {});

}  // namespace strata::optim
