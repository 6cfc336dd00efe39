#include "strata/models/causal_lm.h"

namespace strata::models {

void CausalLm::apply(const nn::ModelTransform& transform) {
  transform.apply(*this, ties());
  transforms_.push_back(transform.to_json());
}

}  // namespace strata::models
