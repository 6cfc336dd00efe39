// Adafactor: a second moment kept as its means over rows and columns.
#pragma once

#include <memory>
#include <optional>

#include "strata/optim/optimizer.h"

namespace strata::optim {

// With t = count + 1, b = 1 - t^(-decay_power), and s = g^2 + eps:
//   v_row <- b v_row + (1 - b) mean(s over c)      c, r: the largest and second largest dim of one
//   v_col <- b v_col + (1 - b) mean(s over r)            layer's array (of equal ones the later
//   u = g / sqrt(v_row / mean(v_row over r)) / sqrt(v_col)                    counts as larger)
// where both are at least `min_factored`; otherwise
//   v <- b v + (1 - b) s        u = g / sqrt(v)
// Then
//   u <- u / max(1, rms(u) / clip_rms)
//   u <- lr u max(rms(p), least_scale)             (the last factor with `parameter_scale` only)
//   u <- m <- momentum m + (1 - momentum) u        (with a momentum only)
//   p <- p - u - weight_decay p
// The decay is not multiplied by the rate, so a rate of 0 does not stop it. Means and rms are taken
// within one layer's, one expert's array (array_dims). Slots: adafactor.v_row (reduced by c) and
// adafactor.v_col (reduced by r), or adafactor.v; adafactor.m. Sources: arXiv 1804.04235; optax
// 0.2.8 `adafactor`, which takes the two largest dims of the stacked array.
struct AdafactorConfig {
  double decay_power = 0.8;
  double eps = 1e-30;  // >= 1.2e-38
  double clip_rms = 1;
  bool parameter_scale = true;
  double least_scale = 1e-3;
  int64_t min_factored = 128;
  std::optional<double> momentum = {};
  DType m_dtype = DType::f32;  // f32 or bf16
  double weight_decay = 0;
};

// Throws invalid_argument optim.hyper_parameter or optim.slot_dtype.
std::shared_ptr<const Optimizer> make_adafactor(const AdafactorConfig& config = {});

}  // namespace strata::optim
