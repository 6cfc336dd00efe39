// Lion: sign of an interpolated momentum.
#pragma once

#include <memory>

#include "strata/optim/optimizer.h"

namespace strata::optim {

//   u  = sign((1 - b1) g + b1 m)                (m before its update)
//   m <- (1 - b2) g + b2 m
//   p <- p - lr (u + weight_decay p)
// Slot: lion.m. Source: arXiv 2302.06675; defaults of optax 0.2.8 `lion`.
struct LionConfig {
  double b1 = 0.9;
  double b2 = 0.99;
  double weight_decay = 1e-3;
  DType m_dtype = DType::f32;  // f32 or bf16
};

// Throws invalid_argument optim.hyper_parameter or optim.slot_dtype.
std::shared_ptr<const Optimizer> make_lion(const LionConfig& config = {});

}  // namespace strata::optim
