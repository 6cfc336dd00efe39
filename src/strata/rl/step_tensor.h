// A tensor of a step under way that its next micro-steps need, beside the engine's state.
#pragma once

#include <string>

#include "strata/base/host_tensor.h"

namespace strata::rl {

struct StepTensor {
  std::string name;
  HostTensor value;
};

}  // namespace strata::rl
