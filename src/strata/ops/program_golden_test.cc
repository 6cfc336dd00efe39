// The text of one program that uses every op, whole. CI runs this under both compilers, whose
// texts must therefore be equal.
#include <gtest/gtest.h>

#include <map>

#include "strata/ops/dot.h"
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

// XLA's CPU compiler would transpose the left side of a product over several dims; a partitioned
// program keeps them, since each may be sharded by itself.
TEST(ProgramText, ProductsOverAdjacentDimsAreMerged) {
  auto text = [](DType dtype, int partitions) {
    ir::Function f;
    f.num_partitions = partitions;
    ir::Value x = f.parameter({dtype, {2, 3, 5}}), y = f.parameter({dtype, {2, 3, 4}});
    f.set_results({dot_general(x, y, {.lhs_contract = {0, 1}, .rhs_contract = {0, 1}})});
    return testing::program_text(f);
  };
  EXPECT_NE(text(DType::f32, 1).find("lhs_contracting_dimensions = [0],"), std::string::npos);
  EXPECT_NE(text(DType::f32, 2).find("lhs_contracting_dimensions = [0, 1],"), std::string::npos);
  EXPECT_NE(text(DType::bf16, 1).find("lhs_contracting_dimensions = [0, 1],"), std::string::npos);
}

}  // namespace
}  // namespace strata::ops
