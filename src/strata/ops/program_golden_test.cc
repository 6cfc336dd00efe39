// The text of one program that uses every op, whole. CI runs this under both compilers, whose
// texts must therefore be equal.
#include <gtest/gtest.h>

#include <map>

#include "strata/ops/op_rows.h"
#include "strata/testing/golden.h"
#include "strata/testing/op_harness.h"

namespace strata::ops {
namespace {

// The first row of each op, one after another in one function.
std::unique_ptr<ir::Function> every_op() {
  auto f = std::make_unique<ir::Function>();
  std::map<const ir::OpDef*, bool> seen;
  ir::Values results;
  for (Rows (*family)() : {control_rows, elementwise_rows, index_rows, matrix_rows, misc_rows,
                           reduce_rows, shape_rows}) {
    for (const testing::OpRow& row : family()) {
      if (seen[row.op]) continue;
      seen[row.op] = true;
      ir::NameScope scope(*f, row.op->name);
      ir::Values inputs;
      for (const testing::RowInput& in : row.inputs) {
        inputs.push_back(f->parameter({in.dtype, in.dims}));
      }
      for (const ir::Value& v : row.build(*f, inputs)) results.push_back(v);
      if (!row.module_header.empty()) f->module_header = row.module_header;
    }
  }
  f->set_results(std::move(results));
  return f;
}

TEST(ProgramText, OfEveryOp) {
  testing::expect_golden("ops/every_op.mlir", testing::program_text(*every_op()));
}

TEST(ProgramText, IsTheSameEveryTime) {
  EXPECT_EQ(testing::program_text(*every_op()), testing::program_text(*every_op()));
}

}  // namespace
}  // namespace strata::ops
