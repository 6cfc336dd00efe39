// Checks of single ops, driven by rows: one row is a small program around one op, inputs for it and
// the same computation as plain loops over doubles. docs/adding_an_op.md shows how to write one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/testing/executor.h"

namespace strata::testing {

// A row-major tensor of doubles, for references.
struct Array {
  Dims dims;
  std::vector<double> data;

  double& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
};
using Arrays = std::vector<Array>;

// Zeros.
Array array(const Dims& dims);
// f applied to every element.
Array map(const Array& x, const std::function<double(double)>& f);
// The position of each element of `dims`, in row-major order.
void for_each_index(const Dims& dims, const std::function<void(const Dims&)>& body);
// The row-major offset of a position.
int64_t offset(const Dims& dims, const Dims& index);

// Random in [low, high), or `values` where given.
struct RowInput {
  DType dtype = DType::f32;
  Dims dims = {};
  double low = -2;
  double high = 2;
  std::vector<double> values = {};
};

using Reference = std::function<Arrays(const Arrays&)>;

struct OpRow {
  const ir::OpDef* op = nullptr;
  std::string what;  // what this row shows, e.g. "two axes"
  std::vector<RowInput> inputs;
  Build build;  // works for any floating type of its float inputs
  Reference reference;
  // Factor on the type's tolerance, for ops that add up many terms.
  double tolerance_scale = 1;
  // Whether `build` has a gradient to check: false for rows about integers, and where values were
  // put on a kink on purpose.
  bool gradient = true;
  std::string module_header = {};
  bool newer_only = false;  // the older plug-in's compiler refuses it
};

// transform::vjp, for the tests of rooms that may not include transform.
ir::Values vjp(const ir::Values& outputs, const ir::Values& cotangents, const ir::Values& inputs);

// "sort: descending".
std::string label(const OpRow& row);

// The inferred types equal the plug-in's; the values equal the reference within
// value_tolerance(result type).
void check_values(const Executor& executor, const OpRow& row);

// By the op's declared gradient: a rule is compared with central differences in f64 along random
// directions; NoGradient must give null; NoRuleYet must throw Unimplemented naming the op.
void check_gradient(const Executor& executor, const OpRow& row);

// Every op of ops::all_ops() has a row, and every row's program holds its op.
void check_coverage(const std::vector<OpRow>& rows);

}  // namespace strata::testing
