// The rows of the op harness, one function a family; defined in <family>_rows_test.cc and run by
// op_values_test.cc and op_gradient_test.cc.
#pragma once

#include <vector>

namespace strata::testing {
struct OpRow;
}

namespace strata::ops {

using Rows = std::vector<testing::OpRow>;

Rows control_rows();
Rows elementwise_rows();
Rows index_rows();   // gather, scatter, sort, top_k, cumulative
Rows matrix_rows();  // dot_general, grouped_dot, triangular_solve
Rows misc_rows();    // barrier, custom call, sharding constraint, threefry, constants
Rows reduce_rows();
Rows shape_rows();

}  // namespace strata::ops
