#include "strata/testing/op_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "strata/base/strings.h"
#include "strata/ops/all_ops.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/testing/random.h"
#include "strata/testing/tolerances.h"
#include "strata/transform/vjp.h"

namespace strata::testing {
namespace {

using Tensors = std::vector<HostTensor>;

Tensors inputs_of(const OpRow& row, Random& random) {
  Tensors out;
  for (const RowInput& in : row.inputs) {
    out.push_back(random.tensor(in.dtype, in.dims, in.low, in.high));
    for (size_t i = 0; i < in.values.size(); ++i) {
      out.back().set(static_cast<int64_t>(i), in.values[i]);
    }
  }
  return out;
}

Array array_of(const HostTensor& t) {
  Array a = array(t.dims());
  for (int64_t i = 0; i < t.size(); ++i) a[i] = t.at(i);
  return a;
}

void compare(const HostTensor& got, const Array& want, double scale, size_t result) {
  ASSERT_EQ(got.dims(), want.dims) << "result " << result;
  Tolerance t = value_tolerance(got.dtype());
  t = {t.relative * scale, t.absolute * scale};
  int shown = 0;
  for (int64_t i = 0; i < got.size() && shown < 5; ++i) {
    if (near(got.at(i), want[i], t)) continue;
    ++shown;
    ADD_FAILURE() << "result " << result << ", element " << i << ": got " << got.at(i)
                  << ", reference " << want[i];
  }
}

bool all_values_in(const std::vector<RowInput>& inputs) {
  for (const RowInput& in : inputs) {
    if (!in.values.empty() && static_cast<int64_t>(in.values.size()) != element_count(in.dims)) {
      return false;
    }
  }
  return true;
}

// Σ <cotangents, outputs> over the float outputs, with the cotangents as constants.
struct Weighted {
  ir::Values outputs, cotangents;
};

Weighted weighted(ir::Function& f, const ir::Values& outputs, uint64_t seed) {
  Random random(seed);
  Weighted out;
  for (const ir::Value& v : outputs) {
    if (!is_float(v.dtype())) continue;
    auto c = std::make_shared<const HostTensor>(random.tensor(v.dtype(), v.dims(), -1, 1));
    out.outputs.push_back(v);
    out.cotangents.push_back(ops::constant(f, c));
  }
  return out;
}

ir::Value total(ir::Value x) {
  Dims all;
  for (int64_t i = 0; i < x.rank(); ++i) all.push_back(i);
  return ops::reduce_sum(x, all);
}

// The loss alone: Σ c·y.
Build loss_of(const OpRow& row, uint64_t seed) {
  return [&row, seed](ir::Function& f, const ir::Values& x) -> ir::Values {
    Weighted w = weighted(f, row.build(f, x), seed);
    ir::Value sum = ops::scalar(f, DType::f64, 0);
    for (size_t i = 0; i < w.outputs.size(); ++i) {
      ir::Value part = total(ops::multiply(w.outputs[i], w.cotangents[i]));
      sum = ops::add(sum, ops::convert(part, DType::f64));
    }
    return {sum};
  };
}

// The gradient of the loss for each float input (zeros where it is null).
Build gradient_of(const OpRow& row, uint64_t seed) {
  return [&row, seed](ir::Function& f, const ir::Values& x) -> ir::Values {
    Weighted w = weighted(f, row.build(f, x), seed);
    ir::Values wanted, out;
    for (const ir::Value& v : x) {
      if (is_float(v.dtype())) wanted.push_back(v);
    }
    ir::Values g = transform::vjp(w.outputs, w.cotangents, wanted);
    for (size_t i = 0; i < g.size(); ++i) {
      out.push_back(g[i] ? g[i] : ops::full_like(wanted[i], 0));
    }
    return out;
  };
}

Tensors in_f64(const Tensors& tensors) {
  Tensors out;
  for (const HostTensor& t : tensors) {
    out.push_back(is_float(t.dtype()) ? convert(t, DType::f64) : t.clone());
  }
  return out;
}

// x + step · direction, for the float inputs; directions are in their order.
Tensors moved(const Tensors& x, const Tensors& directions, double step) {
  Tensors out;
  size_t at = 0;
  for (const HostTensor& t : x) {
    out.push_back(t.clone());
    if (!is_float(t.dtype())) continue;
    const HostTensor& d = directions[at++];
    for (int64_t i = 0; i < t.size(); ++i) out.back().set(i, t.at(i) + step * d.at(i));
  }
  return out;
}

void check_by_differences(const Executor& executor, const OpRow& row, uint64_t seed) {
  Random random(seed);
  Tensors x = in_f64(inputs_of(row, random));
  std::vector<ir::Type> types = types_of(x);
  uint64_t cotangents = random.bits();
  auto loss = executor.compile(*trace(types, loss_of(row, cotangents), row.module_header));
  Tensors g = executor.run(*trace(types, gradient_of(row, cotangents), row.module_header), x);
  for (int repeat = 0; repeat < 3; ++repeat) {
    Tensors directions;
    double slope = 0;
    for (const HostTensor& t : g) {
      directions.push_back(random.tensor(DType::f64, t.dims(), -1, 1));
      for (int64_t i = 0; i < t.size(); ++i) slope += t.at(i) * directions.back().at(i);
    }
    double up = executor.run(loss, moved(x, directions, kDifferenceStep))[0].at(0);
    double down = executor.run(loss, moved(x, directions, -kDifferenceStep))[0].at(0);
    double measured = (up - down) / (2 * kDifferenceStep);
    Tolerance t = kGradientTolerance;
    t.absolute += t.relative * std::abs(up);
    EXPECT_TRUE(near(slope, measured, t))
        << "direction " << repeat << ": gradient gives " << slope << ", differences " << measured;
  }
}

// The gradients with respect to all float inputs, traced only.
ir::Values traced_gradient(const OpRow& row, ir::Function& f) {
  ir::Values x, wanted;
  for (const RowInput& in : row.inputs) {
    x.push_back(f.parameter({is_float(in.dtype) ? DType::f64 : in.dtype, in.dims}));
    if (is_float(in.dtype)) wanted.push_back(x.back());
  }
  Weighted w = weighted(f, row.build(f, x), 1);
  return transform::vjp(w.outputs, w.cotangents, wanted);
}

void check_no_rule(const OpRow& row) {
  ir::Function f;
  try {
    traced_gradient(row, f);
    ADD_FAILURE() << "differentiating should throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unimplemented) << e.what();
    EXPECT_NE(e.message().find(row.op->name), std::string::npos) << e.what();
  }
}

void check_null(const OpRow& row) {
  ir::Function f;
  for (const ir::Value& g : traced_gradient(row, f)) EXPECT_FALSE(g) << "a gradient of NoGradient";
}

bool has_float_input(const OpRow& row) {
  return std::any_of(row.inputs.begin(), row.inputs.end(),
                     [](const RowInput& in) { return is_float(in.dtype); });
}

void collect_ops(const ir::Region& region, std::set<const ir::OpDef*>& out) {
  for (const ir::Node* n : ir::post_order(region.results, &region)) {
    out.insert(n->def);
    for (const auto& r : n->regions) collect_ops(*r, out);
  }
}

}  // namespace

Array array(const Dims& dims) {
  return {dims, std::vector<double>(static_cast<size_t>(element_count(dims)))};
}

Array map(const Array& x, const std::function<double(double)>& f) {
  Array out = x;
  for (double& v : out.data) v = f(v);
  return out;
}

void for_each_index(const Dims& dims, const std::function<void(const Dims&)>& body) {
  Dims index(dims.size(), 0);
  for (int64_t n = element_count(dims); n > 0; --n) {
    body(index);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
}

int64_t offset(const Dims& dims, const Dims& index) {
  int64_t at = 0;
  for (size_t i = 0; i < dims.size(); ++i) at = at * dims[i] + index[i];
  return at;
}

namespace {

void expect_refused(const Executor& executor, const ir::Function& f) {
  try {
    executor.compile(f);
    ADD_FAILURE() << "the older plug-in compiles it after all";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "pjrt.call") << e.what();
  }
}

}  // namespace

ir::Values vjp(const ir::Values& outputs, const ir::Values& cotangents, const ir::Values& inputs) {
  return transform::vjp(outputs, cotangents, inputs);
}

std::string label(const OpRow& row) {
  std::string text(row.op->name);
  return row.what.empty() ? text : text + ": " + row.what;
}

void check_values(const Executor& executor, const OpRow& row) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(label(row) + " on the " + std::string(name_of(executor.plugin())) +
               " plug-in, STRATA_TEST_SEED=" + std::to_string(seed));
  ASSERT_TRUE(all_values_in(row.inputs)) << "a row's values must fill its dims";
  try {
    Random random(seed);
    Tensors inputs = inputs_of(row, random);
    auto f = trace(types_of(inputs), row.build, row.module_header);
    if (row.newer_only && executor.plugin() == CpuPlugin::older)
      return expect_refused(executor, *f);
    pjrt::Executable program = executor.compile(*f);
    std::vector<pjrt::ShapeSpec> types = program.outputs();
    ASSERT_EQ(types.size(), f->top().results.size());
    for (size_t i = 0; i < types.size(); ++i) {
      EXPECT_EQ(shape_text(types[i].dtype, types[i].dims), text(f->top().results[i].type()))
          << "the plug-in's type of result " << i << " and the inferred one";
    }
    Arrays arrays;
    for (const HostTensor& t : inputs) arrays.push_back(array_of(t));
    Arrays want = row.reference(arrays);
    Tensors got = executor.run(program, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) compare(got[i], want[i], row.tolerance_scale, i);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
}

void check_gradient(const Executor& executor, const OpRow& row) {
  if (!row.gradient || !has_float_input(row)) return;
  uint64_t seed = test_seed();
  SCOPED_TRACE("gradient of " + label(row) + ", STRATA_TEST_SEED=" + std::to_string(seed));
  try {
    switch (row.op->gradient.state) {
      case ir::Gradient::State::no_rule_yet:
        return check_no_rule(row);
      case ir::Gradient::State::none:
        return check_null(row);
      case ir::Gradient::State::rule:
      case ir::Gradient::State::region:
        return check_by_differences(executor, row, seed);
    }
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
}

void check_coverage(const std::vector<OpRow>& rows) {
  std::set<const ir::OpDef*> shown;
  for (const OpRow& row : rows) {
    SCOPED_TRACE(label(row));
    std::vector<ir::Type> types;
    for (const RowInput& in : row.inputs) types.push_back({in.dtype, in.dims});
    auto f = trace(types, row.build, row.module_header);
    std::set<const ir::OpDef*> used;
    collect_ops(f->top(), used);
    EXPECT_TRUE(used.contains(row.op)) << "the row's program does not hold its op";
    shown.insert(row.op);
  }
  for (const ir::OpDef* op : ops::all_ops()) {
    EXPECT_TRUE(shown.contains(op)) << "op " << op->name << " has no row in its family's test";
  }
}

}  // namespace strata::testing
