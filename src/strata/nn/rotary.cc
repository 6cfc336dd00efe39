#include "strata/nn/rotary.h"

#include <memory>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/shape.h"

namespace strata::nn {

using ir::Value;

CosSin rotary_tables(Value positions, const RotaryTable& table) {
  std::vector<float> rounded(table.inv_freq.begin(), table.inv_freq.end());
  auto half = static_cast<int64_t>(rounded.size());
  Value inv_freq =
      ops::constant(positions.function(),
                    std::make_shared<const HostTensor>(HostTensor::of<float>({half}, rounded)));
  Dims dims = positions.dims();
  dims.push_back(half);
  Value at = ops::broadcast_in_dim(ops::convert(positions, DType::f32), dims, {0, 1});
  Value phase = at * inv_freq;
  Value cos = ops::cosine(phase), sin = ops::sine(phase);
  if (table.attention_factor != 1.0) {
    cos = cos * table.attention_factor;
    sin = sin * table.attention_factor;
  }
  // Otherwise XLA forms them again for every head of every unrolled layer.
  ir::Values once = ops::optimization_barrier({cos, sin});
  return {once[0], once[1]};
}

Value rotate(Value x, const CosSin& tables) {
  int64_t half = tables.cos.dim(-1), size = x.dim(-1);
  Dims per_head = tables.cos.dims();
  per_head.insert(per_head.begin() + 2, 1);
  Value cos = ops::reshape(tables.cos, per_head), sin = ops::reshape(tables.sin, per_head);
  Value wide = ops::convert(x, DType::f32);
  Value first = ops::slice_axis(wide, -1, 0, half);
  Value second = ops::slice_axis(wide, -1, half, 2 * half);
  ir::Values parts{first * cos - second * sin, second * cos + first * sin};
  if (2 * half < size) parts.push_back(ops::slice_axis(wide, -1, 2 * half, size));
  return ops::convert(ops::concatenate(parts, -1), x.dtype());
}

}  // namespace strata::nn
