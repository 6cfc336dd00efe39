#include "strata/nn/compute_type.h"

#include "strata/ops/elementwise.h"

namespace strata::nn {

ir::Value in_compute_type(const sharding::Slot& slot, ir::Value value, DType compute) {
  return slot.kind == sharding::Kind::buffer ? value : ops::convert(value, compute);
}

}  // namespace strata::nn
