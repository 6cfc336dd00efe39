// Rotary position embedding.
#pragma once

#include <vector>

#include "strata/ir/ir.h"

namespace strata::nn {

// inv_freq_i for i in [0, R/2), in double, and the factor on cos and sin (1 but for yarn).
struct RotaryTable {
  std::vector<double> inv_freq;
  double attention_factor = 1.0;
};

struct CosSin {
  ir::Value cos, sin;
};

// positions (B, T) i32 → tables (B, T, R/2) in float32. Phases are formed in float32 from exact
// integer positions: bf16 would be off by whole radians at a few thousand tokens.
CosSin rotary_tables(ir::Value positions, const RotaryTable& table);

// Rotates the first R dims of each head of x (B, T, H, D), half-split: i pairs with i + R/2. The
// rest passes. Computed in float32, returned in x's type.
ir::Value rotate(ir::Value x, const CosSin& tables);

}  // namespace strata::nn
