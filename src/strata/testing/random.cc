#include "strata/testing/random.h"

#include <cmath>
#include <cstdlib>

namespace strata::testing {

uint64_t test_seed() {
  const char* text = std::getenv("STRATA_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20240607;
}

uint64_t Random::bits() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
}

int64_t Random::below(int64_t bound) {
  return static_cast<int64_t>(bits() % static_cast<uint64_t>(bound));
}

HostTensor Random::tensor(DType dtype, const Dims& dims, double low, double high) {
  HostTensor t(dtype, dims);
  for (int64_t i = 0; i < t.size(); ++i) {
    double value = uniform(low, high);
    t.set(i, is_float(dtype) ? value : std::floor(value));
  }
  return t;
}

}  // namespace strata::testing
