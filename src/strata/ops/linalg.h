// Linear algebra beyond products.
#pragma once

#include "strata/ir/ir.h"

namespace strata::ops {

extern const ir::OpDef kTriangularSolve;

struct TriangularSolve {
  bool left = true;            // op(a) x = b; otherwise x op(a) = b
  bool lower = true;           // which triangle of a is read; the other is ignored
  bool unit_diagonal = false;  // the diagonal counts as ones and is not read
  bool transpose = false;      // op(a) is a transposed
};

// The x of a triangular system. a is (…, n, n), b is (…, n, k) or, for right, (…, k, n), with equal
// batch dims, one floating type. Throws invalid_argument "ops.triangular_solve". A zero on the
// diagonal gives infinities and NaN, as division does.
ir::Value triangular_solve(ir::Value a, ir::Value b, TriangularSolve how = {});

}  // namespace strata::ops
