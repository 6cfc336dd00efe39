// How far computed values may lie from a reference, by element type and by what is compared. The
// one place where tests get such numbers from.
#pragma once

#include <cmath>

#include "strata/base/dtype.h"

namespace strata::testing {

// |got - want| <= absolute + relative * |want|.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// One op against the same formula in double: a few units in the last place of the result's type.
inline Tolerance value_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-13, 1e-14};
    case DType::f32:
      return {2e-6, 5e-7};
    case DType::f16:
      return {2e-3, 1e-3};
    case DType::bf16:
      return {1.6e-2, 8e-3};
    default:
      return {0, 0};  // integers, predicates and f8 are exact
  }
}

// Directional derivative against central differences, both in f64: the differences' own error is
// about (2e-16 / step) + step², with the step of kDifferenceStep.
inline constexpr double kDifferenceStep = 1e-5;
inline constexpr Tolerance kGradientTolerance{2e-7, 2e-8};

// Equal non-finite values are near; a NaN is near a NaN only.
inline bool near(double got, double want, Tolerance t) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= t.absolute + t.relative * std::abs(want);
}

}  // namespace strata::testing
