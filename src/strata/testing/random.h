// Random test data that is the same on every machine, and the seed it starts from.
#pragma once

#include <cstdint>

#include "strata/base/host_tensor.h"

namespace strata::testing {

// The seed of this run: $STRATA_TEST_SEED, or a fixed one. Tests print it when they fail.
uint64_t test_seed();

// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, any seed is good.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  // In [low, high).
  double uniform(double low, double high);
  // In [0, bound); `bound` > 0.
  int64_t below(int64_t bound);
  // Uniform in [low, high), rounded to the element type; integers are rounded down.
  HostTensor tensor(DType dtype, const Dims& dims, double low = -2, double high = 2);

 private:
  uint64_t state_;
};

}  // namespace strata::testing
