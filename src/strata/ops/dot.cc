#include "strata/ops/dot.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "strata/ops/elementwise.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

struct Split {
  Dims lb, rb, lc, rc, lf, rf;  // batch, contracted and free axes of both sides
};

Dims free_axes(int64_t rank, const Dims& a, const Dims& b) {
  Dims out;
  for (int64_t i = 0; i < rank; ++i) {
    bool used =
        std::find(a.begin(), a.end(), i) != a.end() || std::find(b.begin(), b.end(), i) != b.end();
    if (!used) out.push_back(i);
  }
  return out;
}

Split split(const Node& n) {
  Split s{n.attributes.get<Dims>("lhs_batch"),
          n.attributes.get<Dims>("rhs_batch"),
          n.attributes.get<Dims>("lhs_contract"),
          n.attributes.get<Dims>("rhs_contract"),
          {},
          {}};
  s.lf = free_axes(n.operands[0].rank(), s.lb, s.lc);
  s.rf = free_axes(n.operands[1].rank(), s.rb, s.rc);
  return s;
}

bool paired(const Node& n, const Dims& left, const Dims& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    const Value &l = n.operands[0], &r = n.operands[1];
    bool inside = left[i] >= 0 && left[i] < l.rank() && right[i] >= 0 && right[i] < r.rank();
    if (!inside || l.dim(left[i]) != r.dim(right[i])) return false;
  }
  return true;
}

std::vector<Type> dot_shape(const Node& n) {
  Split s = split(n);
  const Value &l = n.operands[0], &r = n.operands[1];
  bool used_once = s.lb.size() + s.lc.size() + s.lf.size() == l.dims().size() &&
                   s.rb.size() + s.rc.size() + s.rf.size() == r.dims().size();
  if (!used_once || l.dtype() != r.dtype() || !paired(n, s.lb, s.rb) || !paired(n, s.lc, s.rc)) {
    misuse(n, "one element type and paired batch and contracted dims of equal size",
           operand_types(n) + ", batch " + array_text(s.lb) + " and " + array_text(s.rb) +
               ", contracted " + array_text(s.lc) + " and " + array_text(s.rc));
  }
  Type out{static_cast<DType>(n.attributes.get<int64_t>("result")), {}};
  for (int64_t a : s.lb) out.dims.push_back(l.dim(a));
  for (int64_t a : s.lf) out.dims.push_back(l.dim(a));
  for (int64_t a : s.rf) out.dims.push_back(r.dim(a));
  return {out};
}

Dims range(size_t begin, size_t count) {
  Dims out(count);
  std::iota(out.begin(), out.end(), static_cast<int64_t>(begin));
  return out;
}

// The gradient of one side. `mine` has axes (batch mb, free mf, contracted mc), the other side
// (ob, of, oc); the cotangent holds the other's free dims at `at`.
Value side_gradient(Value ct, Value mine, Value other, const Dims& mb, const Dims& mf,
                    const Dims& mc, const Dims& ob, const Dims& of, const Dims& oc, size_t at) {
  Value g = dot_general(convert(ct, other.dtype()), other,
                        {.lhs_batch = range(0, mb.size()),
                         .rhs_batch = ob,
                         .lhs_contract = range(at, of.size()),
                         .rhs_contract = of});
  // g's dims: batch, my free dims, then the contracted dims in the order of the other side's axes.
  Dims order(oc.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return oc[static_cast<size_t>(a)] < oc[static_cast<size_t>(b)];
  });
  Dims axis_of = mb;
  axis_of.insert(axis_of.end(), mf.begin(), mf.end());
  for (int64_t o : order) axis_of.push_back(mc[static_cast<size_t>(o)]);
  Dims permutation(axis_of.size());
  for (size_t i = 0; i < axis_of.size(); ++i) {
    permutation[static_cast<size_t>(axis_of[i])] = static_cast<int64_t>(i);
  }
  return convert(transpose(g, permutation), mine.dtype());
}

Values dot_gradient(Node& n, Cotangents c) {
  Split s = split(n);
  Value l = n.operands[0], r = n.operands[1];
  size_t batch = s.lb.size();
  // For the rhs the cotangent's lhs-free dims are contracted, which leaves batch and rhs-free.
  return {side_gradient(c[0], l, r, s.lb, s.lf, s.lc, s.rb, s.rf, s.rc, batch + s.lf.size()),
          side_gradient(c[0], r, l, s.rb, s.rf, s.rc, s.lb, s.lf, s.lc, batch)};
}

AttributeTexts print_dot(const Node& n) {
  auto list = [&](std::string_view name) {
    std::string text = "[";
    for (int64_t d : n.attributes.get<Dims>(name)) {
      text += (text.size() > 1 ? ", " : "") + std::to_string(d);
    }
    return text + "]";
  };
  std::string precision = n.operands[0].dtype() == DType::f32 ? "HIGHEST" : "DEFAULT";
  std::string p = "#stablehlo<precision " + precision + ">";
  return {
      {"dot_dimension_numbers", "#stablehlo.dot<lhs_batching_dimensions = " + list("lhs_batch") +
                                    ", rhs_batching_dimensions = " + list("rhs_batch") +
                                    ", lhs_contracting_dimensions = " + list("lhs_contract") +
                                    ", rhs_contracting_dimensions = " + list("rhs_contract") + ">"},
      {"precision_config", "[" + p + ", " + p + "]"}};
}

bool adjacent(const Dims& axes) {
  for (size_t i = 1; i < axes.size(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return false;
  }
  return true;
}

// `v` with the adjacent dims `axes` merged into one.
Value merged(Value v, const Dims& axes) {
  auto first = v.dims().begin() + axes.front();
  Dims dims(v.dims().begin(), first);
  auto count = static_cast<int64_t>(axes.size());
  dims.push_back(std::accumulate(first, first + count, int64_t{1}, std::multiplies<>()));
  dims.insert(dims.end(), first + count, v.dims().end());
  return reshape(v, dims);
}

// The axes after such a merge.
Dims renumbered(Dims axes, const Dims& merge) {
  for (int64_t& a : axes) {
    if (a > merge.back()) a -= static_cast<int64_t>(merge.size()) - 1;
  }
  return axes;
}

// A float32 product over several adjacent dims, as a weight's gradient over rows and tokens, is
// written as one over a single dim: for the former XLA's CPU compiler first makes a transposed copy
// of the left side (12 % of a train step of SmolLM2; its bfloat16 products are faster with it).
// Not in partitioned programs, whose dims may be sharded one by one.
Values lower_dot(Node& n, std::span<const Value> x) {
  Split s = split(n);
  bool merge = n.function->num_partitions == 1 && n.operands[0].dtype() == DType::f32 &&
               s.lc.size() > 1 && adjacent(s.lc) && adjacent(s.rc);
  if (!merge) return {emit(kDotGeneral, {x[0], x[1]}, n.attributes)};
  return {dot_general(merged(x[0], s.lc), merged(x[1], s.rc),
                      {.lhs_batch = renumbered(s.lb, s.lc),
                       .rhs_batch = renumbered(s.rb, s.rc),
                       .lhs_contract = {s.lc.front()},
                       .rhs_contract = {s.rc.front()}},
                      n.results[0].dtype)};
}

}  // namespace

constexpr OpDef kDotGeneral{
    .name = "dot_general",
    .arity = 2,
    .shape = dot_shape,
    .gradient = ir::rule(dot_gradient),
    .print = print_dot,
    .lower = lower_dot,
};

Value dot_general(Value lhs, Value rhs, const DotDims& d) {
  return dot_general(lhs, rhs, d, lhs.dtype());
}

Value dot_general(Value lhs, Value rhs, const DotDims& d, DType result) {
  return emit(kDotGeneral, {lhs, rhs},
              {{"lhs_batch", d.lhs_batch},
               {"rhs_batch", d.rhs_batch},
               {"lhs_contract", d.lhs_contract},
               {"rhs_contract", d.rhs_contract},
               {"result", static_cast<int64_t>(result)}});
}

Value linear(Value x, Value weight) {
  return dot_general(x, weight, {.lhs_contract = {x.rank() - 1}, .rhs_contract = {1}});
}

}  // namespace strata::ops
