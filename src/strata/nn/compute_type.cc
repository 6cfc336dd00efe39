#include "strata/nn/compute_type.h"

#include "strata/ops/elementwise.h"

namespace strata::nn {

ir::Value in_compute_type(const sharding::Slot& slot, ir::Value value, DType compute) {
  bool as_it_is = slot.kind == sharding::Kind::buffer || !is_float(value.dtype());
  return as_it_is ? value : ops::convert(value, compute);
}

}  // namespace strata::nn
