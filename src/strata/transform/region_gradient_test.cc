// Gradients of scan, call and if against central differences in f64, under every remat policy. All
// policies must give the same gradients.
#include <gtest/gtest.h>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/reduce.h"
#include "strata/testing/executor.h"
#include "strata/testing/random.h"
#include "strata/testing/tolerances.h"
#include "strata/transform/vjp.h"

namespace strata::transform {
namespace {

using ir::Function;
using ir::Type;
using ir::Value;
using ir::Values;
using ops::Remat;
using ops::Step;

using Program = std::function<Values(Function&, const Values&, const Remat&)>;
using Tensors = std::vector<HostTensor>;

struct Row {
  std::string name;
  std::vector<Type> inputs;
  Program program;
};

// The first is what the others are compared with.
constexpr const char* kPolicies[] = {"none", "dots", "full", "names:kept", "offload:kept"};

Type f64(Dims dims) { return {DType::f64, std::move(dims)}; }

// Σ random constant · result over the float results.
Value loss_of(Function& f, const Values& results) {
  testing::Random random(7);
  Value loss = ops::scalar(f, DType::f64, 0);
  for (const Value& v : results) {
    if (!is_float(v.dtype())) continue;
    auto weight = std::make_shared<const HostTensor>(random.tensor(v.dtype(), v.dims()));
    Dims all(v.dims().size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    loss = loss + ops::reduce_sum(v * ops::constant(f, weight), all);
  }
  return loss;
}

// [loss, gradient of every f64 input] under a policy.
Tensors gradients(const testing::Executor& executor, const Row& row, const Tensors& inputs,
                  const std::string& policy) {
  auto f = testing::trace(row.inputs, [&](Function& g, const Values& v) {
    Value loss = loss_of(g, row.program(g, v, ops::parse_remat(policy)));
    Values wanted, out{loss};
    for (const Value& x : v) {
      if (is_float(x.dtype())) wanted.push_back(x);
    }
    for (const Value& x : gradient(loss, wanted)) out.push_back(x);
    return out;
  });
  return executor.run(*f, inputs);
}

Tensors moved(const Tensors& inputs, const Tensors& direction, double step) {
  Tensors out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.emplace_back(inputs[i].dtype(), inputs[i].dims());
    double scale = is_float(inputs[i].dtype()) ? step : 0;
    for (int64_t k = 0; k < inputs[i].size(); ++k) {
      out[i].set(k, inputs[i].at(k) + scale * direction[i].at(k));
    }
  }
  return out;
}

void expect_slopes(const testing::Executor& executor, const Row& row, const Tensors& inputs,
                   const Tensors& g) {
  auto f = testing::trace(row.inputs, [&](Function& h, const Values& v) -> Values {
    return {loss_of(h, row.program(h, v, {}))};
  });
  pjrt::Executable program = executor.compile(*f);
  EXPECT_NEAR(executor.run(program, inputs)[0].at(0), g[0].at(0), 1e-12);
  testing::Random random(testing::test_seed() + 1);
  for (int repeat = 0; repeat < 3; ++repeat) {
    Tensors direction;
    for (const Type& t : row.inputs) direction.push_back(random.tensor(t.dtype, t.dims, -1, 1));
    constexpr double kStep = testing::kDifferenceStep;
    double up = executor.run(program, moved(inputs, direction, kStep))[0].at(0);
    double down = executor.run(program, moved(inputs, direction, -kStep))[0].at(0);
    double slope = 0;
    size_t at = 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_float(inputs[i].dtype())) continue;
      for (int64_t k = 0; k < inputs[i].size(); ++k) slope += direction[i].at(k) * g[at].at(k);
      ++at;
    }
    testing::Tolerance t = testing::kGradientTolerance;
    t.absolute += t.relative * std::abs(up);
    double measured = (up - down) / (2 * kStep);
    EXPECT_TRUE(testing::near(slope, measured, t)) << slope << " against " << measured;
  }
}

class RegionGradient : public ::testing::TestWithParam<Row> {};

TEST_P(RegionGradient, EqualsDifferencesUnderEveryPolicy) {
  SCOPED_TRACE("STRATA_TEST_SEED=" + std::to_string(testing::test_seed()));
  testing::Executor executor;
  testing::Random random(testing::test_seed());
  Tensors inputs;
  for (const Type& t : GetParam().inputs) {
    bool real = is_float(t.dtype);
    inputs.push_back(random.tensor(t.dtype, t.dims, real ? -1 : 0, real ? 1 : 4));
  }
  Tensors first = gradients(executor, GetParam(), inputs, kPolicies[0]);
  expect_slopes(executor, GetParam(), inputs, first);
  for (const char* policy : kPolicies) {
    SCOPED_TRACE(policy);
    Tensors g = gradients(executor, GetParam(), inputs, policy);
    ASSERT_EQ(g.size(), first.size());
    for (size_t i = 0; i < g.size(); ++i) {
      for (int64_t k = 0; k < g[i].size(); ++k) {
        EXPECT_TRUE(testing::near(g[i].at(k), first[i].at(k), {1e-13, 1e-14}))
            << "result " << i << "[" << k << "]: " << g[i].at(k) << ", not " << first[i].at(k);
      }
    }
  }
}

// h' = tanh(h wᵀ + x), with the product tagged.
Value cell(Value h, Value x, Value w) { return ops::tanh(ops::tag(ops::linear(h, w), "kept") + x); }

ops::ScanOptions over(int64_t length, const Remat& remat) {
  ops::ScanOptions o;
  o.length = length;
  o.remat = remat;
  return o;
}

Values flat(const Step& s) {
  Values out = s.carry;
  out.insert(out.end(), s.ys.begin(), s.ys.end());
  return out;
}

// A recurrence with a captured matrix, inputs and outputs on the given axes.
Row recurrence(std::string name, int64_t length, bool reverse, int64_t x_axis, int64_t y_axis) {
  Dims x{2, 3};
  x.insert(x.begin() + x_axis, length);
  Program program = [=](Function& f, const Values& v, const Remat& remat) {
    ops::ScanOptions o = over(length, remat);
    o.reverse = reverse;
    o.x_axes = {x_axis};
    o.y_axes = {y_axis};
    return flat(ops::scan(f, {v[0]}, {v[1]}, o, [&](Value, const Values& c, const Values& s) {
      Value h = cell(c[0], s[0], v[2]);
      return Step{{h}, {h * ops::sine(s[0]) * ops::reduce_sum(v[2], {0})}};
    }));
  };
  return {std::move(name), {f64({2, 3}), f64(x), f64({3, 3})}, program};
}

// A step counter in i32, the index in a product, and a table looked up by integers.
Values with_integers(Function& f, const Values& v, const Remat& remat) {
  Step s = ops::scan(f, {v[0], v[2]}, {v[3]}, over(4, remat),
                     [&](Value index, const Values& c, const Values& x) {
                       Value at = ops::convert(index, DType::f64) + 1.0;
                       Value picked = ops::take(v[1], x[0], 0) * ops::convert(c[1], DType::f64);
                       Value h = ops::sine(c[0] * at + picked);
                       return Step{{h, c[1] + 1.0}, {h, c[1]}};
                     });
  return flat(s);
}

// A carry that passes, an input and an output without use, two carries that change places.
Values with_unused(Function& f, const Values& v, const Remat& remat) {
  Step s = ops::scan(f, {v[0], v[1], v[2]}, {v[3], v[4]}, over(3, remat),
                     [&](Value, const Values& c, const Values& x) {
                       Value h = ops::sine(c[1] * x[0]) + c[0];
                       return Step{{c[1], h, c[2]}, {x[0], h * 2.0, c[0]}};
                     });
  return {s.carry[0], s.ys[2], s.ys[0]};
}

Values outputs_only(Function& f, const Values& v, const Remat& remat) {
  return ops::scan(f, {v[0]}, {v[1]}, over(3, remat),
                   [&](Value, const Values& c, const Values& x) {
                     Value h = ops::tanh(c[0] * x[0]);
                     return Step{{h}, {ops::exponential(h)}};
                   })
      .ys;
}

Values nested(Function& f, const Values& v, const Remat& remat) {
  return flat(
      ops::scan(f, {v[0]}, {v[1]}, over(3, remat), [&](Value, const Values& c, const Values& x) {
        ops::ScanOptions inner = over(2, remat);
        inner.reverse = true;
        Step s = ops::scan(f, {c[0]}, {x[0]}, inner, [&](Value, const Values& d, const Values& y) {
          Value h = cell(d[0], y[0], v[2]);
          return Step{{h}, {h * c[0]}};
        });
        return Step{{s.carry[0]}, {ops::sine(s.ys[0])}};
      }));
}

Values call_of(Function& f, const Values& in, const Remat& remat) {
  return ops::call(f, in, remat, [](const Values& v) -> Values {
    Value h = cell(v[0], ops::sine(v[0]), v[1]);
    return {h, ops::exponential(h) * v[0]};
  });
}

Values call_in_scan(Function& f, const Values& v, const Remat& remat) {
  return flat(
      ops::scan(f, {v[0]}, {v[1]}, over(3, remat), [&](Value, const Values& c, const Values& x) {
        Values r = call_of(f, {c[0] + x[0], v[2]}, remat);
        return Step{{r[0]}, {r[1]}};
      }));
}

Values scan_in_call(Function& f, const Values& v, const Remat& remat) {
  return ops::call(f, v, remat, [&](const Values& in) {
    Step s = ops::scan(f, {in[0]}, {in[1]}, over(3, remat),
                       [&](Value, const Values& c, const Values& x) {
                         Value h = cell(c[0], x[0], in[2]);
                         return Step{{h}, {h}};
                       });
    return Values{ops::sine(s.carry[0]), s.ys[0]};
  });
}

// One branch does not use v[2], the other not v[1]; a captured value in both.
Values branches(Value pred, const Values& v) {
  return ops::if_(
      pred,
      [&] {
        return Values{ops::sine(v[0]) * v[1], v[0]};
      },
      [&] {
        return Values{ops::exponential(v[0] * v[2]), v[2]};
      });
}

Row if_row(const std::string& name, double taken) {
  return {
      name, {f64({3}), f64({3}), f64({3})}, [taken](Function& f, const Values& v, const Remat&) {
        Value pred =
            ops::compare(ops::scalar(f, DType::f64, taken), ops::reduce_sum(v[0] * 0.0, {0}), "GT");
        return branches(pred, v);
      }};
}

Values if_in_scan(Function& f, const Values& v, const Remat& remat) {
  return flat(ops::scan(f, {v[0]}, {v[1]}, over(4, remat),
                        [&](Value index, const Values& c, const Values& x) {
                          Value pred = ops::compare(index, ops::full_like(index, 2), "LT");
                          Values r = branches(pred, {c[0], x[0], v[2]});
                          return Step{{r[0]}, {r[1]}};
                        }));
}

// The gradient of a scan as a program of its own: second derivatives.
Values second_order(Function& f, const Values& v, const Remat& remat) {
  Step s =
      ops::scan(f, {v[0]}, {v[1]}, over(3, remat), [&](Value, const Values& c, const Values& x) {
        Value h = cell(c[0], x[0], v[2]);
        return Step{{h}, {h * h}};
      });
  return gradient(loss_of(f, flat(s)), {v[0], v[2]});
}

std::vector<Row> rows() {
  std::vector<Type> scanned{f64({2, 3}), f64({3, 2, 3}), f64({3, 3})};
  std::vector<Row> out;
  out.push_back(recurrence("forward", 4, false, 0, 0));
  out.push_back(recurrence("reverse", 4, true, 0, 0));
  out.push_back(recurrence("axes_1_and_1", 4, false, 1, 1));
  out.push_back(recurrence("reverse_axes_1_and_0", 4, true, 1, 0));
  out.push_back(recurrence("one_step", 1, false, 0, 1));
  out.push_back(recurrence("no_step", 0, false, 0, 0));
  out.push_back(
      {"integers", {f64({3}), f64({4, 3}), {DType::i32, {}}, {DType::i32, {4}}}, with_integers});
  out.push_back({"unused", {f64({2}), f64({2}), f64({2}), f64({3, 2}), f64({3, 5})}, with_unused});
  out.push_back({"outputs_only", {f64({2}), f64({3, 2})}, outputs_only});
  out.push_back({"nested", {f64({2, 3}), f64({3, 2, 2, 3}), f64({3, 3})}, nested});
  out.push_back({"call", {f64({2, 3}), f64({3, 3})}, call_of});
  out.push_back({"call_in_scan", scanned, call_in_scan});
  out.push_back({"scan_in_call", scanned, scan_in_call});
  out.push_back(if_row("if_then", 1));
  out.push_back(if_row("if_otherwise", -1));
  out.push_back({"if_in_scan", {f64({3}), f64({4, 3}), f64({3})}, if_in_scan});
  out.push_back({"second_order", scanned, second_order});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Programs, RegionGradient, ::testing::ValuesIn(rows()),
                         [](const ::testing::TestParamInfo<Row>& r) { return r.param.name; });

}  // namespace
}  // namespace strata::transform
