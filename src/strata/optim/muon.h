// Muon: momentum whose matrices are made nearly orthogonal.
#pragma once

#include <memory>

#include "strata/optim/adamw.h"
#include "strata/optim/optimizer.h"

namespace strata::optim {

// For every parameter that is a matrix and whose group is not `elementwise`, with t = count + 1:
//   m <- beta m + (1 - beta) g
//   h  = beta m / (1 - beta^(t+1)) + (1 - beta) g / (1 - beta^t)
//   X  = h / (|h| + eps)                           (Frobenius norm)
//   `steps` times, on X transposed where it has more rows than columns:
//     A = X X^T,  X <- a X + (b A + c A^2) X,      (a, b, c) = (3.4445, -4.7750, 2.0315)
//   p <- p - lr (sqrt(max(1, out / in)) X + weight_decay p)
// A parameter is a matrix when one layer's, one expert's array of it (array_dims) has two dims;
// they are (out, in), as kernels are here. Each layer and expert is orthogonalised by itself.
//
// All other parameters are AdamW's (`adamw`, its weight_decay field aside). With `optax_rest` they
// are what optax 0.2.8 `muon` makes of them: Nesterov's variant, and no weight decay.
// Which parameters are matrices to orthogonalise is the groups' decision: use muon_groups.
//
// Slots: muon.m, or adam.m and adam.v. Sources: Jordan et al. 2024 (Muon), optax 0.2.8 `muon`. The
// gradient is averaged, not summed, by beta; X does not depend on that. The default weight decay is
// optax's.
struct MuonConfig {
  double beta = 0.95;
  double eps = 1e-8;  // >= 1.2e-38
  int64_t steps = 5;  // in [1, 20]
  double weight_decay = 0;
  DType m_dtype = DType::f32;  // f32 or bf16
  AdamWConfig adamw = {};
  bool optax_rest = false;
};

// Throws invalid_argument optim.hyper_parameter or optim.slot_dtype.
std::shared_ptr<const Optimizer> make_muon(const MuonConfig& config = {});

}  // namespace strata::optim
