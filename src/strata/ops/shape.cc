#include "strata/ops/shape.h"

#include <algorithm>
#include <numeric>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/reduce.h"
#include "strata/ops/rules.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

const Dims& dims_of(const Node& n, std::string_view attribute) {
  return n.attributes.get<Dims>(attribute);
}

Dims zeros(size_t n) { return Dims(n, 0); }

size_t rank_of(const Node& n) { return n.operands[0].dims().size(); }

std::vector<Type> broadcast_shape(const Node& n) {
  const Type& x = n.operands[0].type();
  const Dims& dims = dims_of(n, "dims");
  const Dims& axes = dims_of(n, "axes");
  bool fits = axes.size() == x.dims.size();
  for (size_t i = 0; fits && i < axes.size(); ++i) {
    fits = axes[i] >= 0 && axes[i] < static_cast<int64_t>(dims.size()) &&
           dims[static_cast<size_t>(axes[i])] == x.dims[i] && (i == 0 || axes[i - 1] < axes[i]);
  }
  if (!fits) {
    misuse(n, "rising axes that map the operand's dims to equal ones of " + array_text(dims),
           ir::text(x) + " with axes " + array_text(axes));
  }
  return {{x.dtype, dims}};
}

Values broadcast_gradient(Node& n, Cotangents c) {
  const Dims& axes = dims_of(n, "axes");
  Dims all(c[0].dims().size());
  std::iota(all.begin(), all.end(), 0);
  Dims added = without(all, axes);
  return {added.empty() ? c[0] : reduce_sum(c[0], added)};
}

std::vector<Type> transpose_shape(const Node& n) {
  const Type& x = n.operands[0].type();
  const Dims& p = dims_of(n, "permutation");
  Dims sorted = p, identity(x.dims.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(identity.begin(), identity.end(), 0);
  if (sorted != identity) {
    misuse(n, "a permutation of " + std::to_string(x.rank()) + " axes", array_text(p));
  }
  Type out{x.dtype, {}};
  for (int64_t axis : p) out.dims.push_back(x.dims[static_cast<size_t>(axis)]);
  return {out};
}

std::vector<Type> slice_shape(const Node& n) {
  const Type& x = n.operands[0].type();
  const Dims &start = dims_of(n, "start"), &limit = dims_of(n, "limit"),
             &stride = dims_of(n, "strides");
  bool fits = start.size() == x.dims.size() && limit.size() == start.size() &&
              stride.size() == start.size();
  Type out{x.dtype, {}};
  for (size_t i = 0; fits && i < start.size(); ++i) {
    fits = 0 <= start[i] && start[i] <= limit[i] && limit[i] <= x.dims[i] && stride[i] > 0;
    if (fits) out.dims.push_back((limit[i] - start[i] + stride[i] - 1) / stride[i]);
  }
  if (!fits) {
    misuse(n, "0 <= start <= limit <= size and stride > 0 for each dim of " + ir::text(x),
           "start " + array_text(start) + ", limit " + array_text(limit) + ", strides " +
               array_text(stride));
  }
  return {out};
}

Values slice_gradient(Node& n, Cotangents c) {
  const Dims &start = dims_of(n, "start"), &stride = dims_of(n, "strides");
  Dims high, interior;
  for (size_t i = 0; i < start.size(); ++i) {
    int64_t kept = c[0].dims()[i];
    int64_t span = kept == 0 ? 0 : (kept - 1) * stride[i] + 1;
    high.push_back(n.operands[0].dims()[i] - start[i] - span);
    interior.push_back(stride[i] - 1);
  }
  return {pad(c[0], scalar(*n.function, c[0].dtype(), 0), start, high, interior)};
}

std::vector<Type> pad_shape(const Node& n) {
  const Type& x = n.operands[0].type();
  const Dims &low = dims_of(n, "low"), &high = dims_of(n, "high"), &in = dims_of(n, "interior");
  bool fits = n.operands[1].type() == Type{x.dtype, {}} && low.size() == x.dims.size() &&
              high.size() == low.size() && in.size() == low.size();
  Type out{x.dtype, {}};
  for (size_t i = 0; fits && i < low.size(); ++i) {
    int64_t inner = x.dims[i] == 0 ? 0 : (x.dims[i] - 1) * in[i];
    out.dims.push_back(x.dims[i] + inner + low[i] + high[i]);
    fits = in[i] >= 0 && out.dims.back() >= 0;
  }
  if (!fits) misuse(n, "paddings for each dim that leave sizes >= 0", operand_types(n));
  return {out};
}

Values pad_gradient(Node& n, Cotangents c) {
  const Dims &low = dims_of(n, "low"), &high = dims_of(n, "high"), &in = dims_of(n, "interior");
  Dims back_low, back_high, strides, limit;
  for (size_t i = 0; i < low.size(); ++i) {
    back_low.push_back(-low[i]);
    back_high.push_back(-high[i]);
    strides.push_back(in[i] + 1);
  }
  Value zero = scalar(*n.function, c[0].dtype(), 0);
  Value inner = pad(c[0], zero, back_low, back_high);
  Value dx = slice(inner, zeros(low.size()), inner.dims(), strides);
  Dims all(c[0].dims().size());
  std::iota(all.begin(), all.end(), 0);
  return {dx, reduce_sum(c[0], all) - reduce_sum(dx, all)};
}

std::vector<Type> concatenate_shape(const Node& n) {
  int64_t axis = n.attributes.get<int64_t>("axis");
  if (n.operands.empty() || axis < 0 || axis >= n.operands[0].rank()) {
    misuse(n, "operands of a rank above axis " + std::to_string(axis), operand_types(n));
  }
  Type out = n.operands[0].type();
  auto at = static_cast<size_t>(axis);
  out.dims[at] = 0;
  for (const Value& v : n.operands) {
    Type other = v.type();
    int64_t size = v.rank() == out.rank() ? other.dims[at] : 0;
    if (v.rank() == out.rank()) other.dims[at] = out.dims[at];
    if (other != out)
      misuse(n, "types equal but for axis " + std::to_string(axis), operand_types(n));
    out.dims[at] += size;
  }
  return {out};
}

Values concatenate_gradient(Node& n, Cotangents c) {
  int64_t axis = n.attributes.get<int64_t>("axis");
  int64_t at = 0;
  Values out;
  for (const Value& v : n.operands) {
    out.push_back(slice_axis(c[0], axis, at, at + v.dim(axis)));
    at += v.dim(axis);
  }
  return out;
}

bool scalar_indices(const Node& n, size_t first) {
  for (size_t i = first; i < n.operands.size(); ++i) {
    const Type& t = n.operands[i].type();
    if (t.rank() != 0 || !is_integer(t.dtype) || t != n.operands[first].type()) return false;
  }
  return n.operands.size() == first + rank_of(n);
}

std::vector<Type> dynamic_slice_shape(const Node& n) {
  const Type& x = n.operands[0].type();
  const Dims& sizes = dims_of(n, "sizes");
  bool fits = scalar_indices(n, 1) && sizes.size() == x.dims.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes[i] >= 0 && sizes[i] <= x.dims[i];
  if (!fits) {
    misuse(n, "one rank-0 integer index per dim and sizes that fit",
           operand_types(n) + ", sizes " + array_text(sizes));
  }
  return {{x.dtype, sizes}};
}

std::vector<Type> dynamic_update_shape(const Node& n) {
  const Type &x = n.operands[0].type(), &u = n.operands[1].type();
  bool fits = scalar_indices(n, 2) && u.dtype == x.dtype && u.rank() == x.rank();
  for (size_t i = 0; fits && i < u.dims.size(); ++i) fits = u.dims[i] <= x.dims[i];
  if (!fits) misuse(n, "an update that fits and one rank-0 integer per dim", operand_types(n));
  return {x};
}

Values starts(const Node& n, size_t first) {
  return {n.operands.begin() + static_cast<ptrdiff_t>(first), n.operands.end()};
}

}  // namespace

constexpr OpDef kBroadcastInDim{
    .name = "broadcast_in_dim",
    .arity = 1,
    .shape = broadcast_shape,
    .gradient = ir::rule(broadcast_gradient),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"broadcast_dimensions", array_text(dims_of(n, "axes"))}};
    },
    .cost = Cost::free,
};

constexpr OpDef kReshape{
    .name = "reshape",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> {
      const Type& x = n.operands[0].type();
      const Dims& dims = dims_of(n, "dims");
      if (element_count(dims) != x.elements()) {
        misuse(n, std::to_string(x.elements()) + " elements as in " + ir::text(x),
               shape_text(x.dtype, dims));
      }
      return {{x.dtype, dims}};
    },
    .gradient = ir::rule(
        [](Node& n, Cotangents c) -> Values { return {reshape(c[0], n.operands[0].dims())}; }),
    .cost = Cost::free,
};

constexpr OpDef kTranspose{
    .name = "transpose",
    .arity = 1,
    .shape = transpose_shape,
    .gradient = ir::rule([](Node& n, Cotangents c) -> Values {
      const Dims& p = dims_of(n, "permutation");
      Dims inverse(p.size());
      for (size_t i = 0; i < p.size(); ++i) {
        inverse[static_cast<size_t>(p[i])] = static_cast<int64_t>(i);
      }
      return {transpose(c[0], inverse)};
    }),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"permutation", array_text(dims_of(n, "permutation"))}};
    },
    .cost = Cost::free,
};

constexpr OpDef kSlice{
    .name = "slice",
    .arity = 1,
    .shape = slice_shape,
    .gradient = ir::rule(slice_gradient),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"start_indices", array_text(dims_of(n, "start"))},
              {"limit_indices", array_text(dims_of(n, "limit"))},
              {"strides", array_text(dims_of(n, "strides"))}};
    },
    .cost = Cost::free,
};

constexpr OpDef kPad{
    .name = "pad",
    .arity = 2,
    .shape = pad_shape,
    .gradient = ir::rule(pad_gradient),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"edge_padding_low", array_text(dims_of(n, "low"))},
              {"edge_padding_high", array_text(dims_of(n, "high"))},
              {"interior_padding", array_text(dims_of(n, "interior"))}};
    },
    .cost = Cost::free,
};

constexpr OpDef kConcatenate{
    .name = "concatenate",
    .arity = -1,
    .shape = concatenate_shape,
    .gradient = ir::rule(concatenate_gradient),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"dimension", std::to_string(n.attributes.get<int64_t>("axis")) + " : i64"}};
    },
    .cost = Cost::free,
};

constexpr OpDef kReverse{
    .name = "reverse",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> { return {n.operands[0].type()}; },
    .gradient = ir::rule(
        [](Node& n, Cotangents c) -> Values { return {reverse(c[0], dims_of(n, "axes"))}; }),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"dimensions", array_text(dims_of(n, "axes"))}};
    },
    .cost = Cost::free,
};

constexpr OpDef kDynamicSlice{
    .name = "dynamic_slice",
    .arity = -1,
    .shape = dynamic_slice_shape,
    .gradient = ir::rule([](Node& n, Cotangents c) -> Values {
      Values out(n.operands.size());
      out[0] = dynamic_update_slice(zeros_like(n.operands[0]), c[0], starts(n, 1));
      return out;
    }),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"slice_sizes", array_text(dims_of(n, "sizes"))}};
    },
    .cost = Cost::free,
};

constexpr OpDef kDynamicUpdateSlice{
    .name = "dynamic_update_slice",
    .arity = -1,
    .shape = dynamic_update_shape,
    .gradient = ir::rule([](Node& n, Cotangents c) -> Values {
      Values out(n.operands.size());
      Values start = starts(n, 2);
      out[0] = dynamic_update_slice(c[0], zeros_like(n.operands[1]), start);
      out[1] = dynamic_slice(c[0], start, n.operands[1].dims());
      return out;
    }),
};

Value broadcast_in_dim(Value x, const Dims& dims, const Dims& axes) {
  return emit(kBroadcastInDim, {x}, {{"dims", dims}, {"axes", axes}});
}

Value reshape(Value x, Dims dims) {
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& d : dims) {
    if (d == -1 && open == nullptr) {
      open = &d;
    } else {
      known *= d;
    }
  }
  if (open != nullptr) *open = known == 0 ? 0 : x.type().elements() / known;
  if (dims == x.dims()) return x;
  return emit(kReshape, {x}, {{"dims", dims}});
}

Value transpose(Value x, Dims permutation) {
  for (int64_t& axis : permutation) axis = normal_axis(axis, x.rank(), "transpose");
  Dims identity(x.dims().size());
  std::iota(identity.begin(), identity.end(), 0);
  if (permutation == identity) return x;
  return emit(kTranspose, {x}, {{"permutation", permutation}});
}

Value slice(Value x, const Dims& start, const Dims& limit, Dims strides) {
  if (strides.empty()) strides = Dims(x.dims().size(), 1);
  return emit(kSlice, {x}, {{"start", start}, {"limit", limit}, {"strides", strides}});
}

Value slice_axis(Value x, int64_t axis, int64_t begin, int64_t end) {
  auto at = static_cast<size_t>(normal_axis(axis, x.rank(), "slice_axis"));
  Dims start = zeros(x.dims().size()), limit = x.dims();
  if (begin == 0 && end == limit[at]) return x;
  start[at] = begin;
  limit[at] = end;
  return slice(x, start, limit);
}

Value select_index(Value x, int64_t axis, int64_t index) {
  int64_t at = normal_axis(axis, x.rank(), "select_index");
  return reshape(slice_axis(x, at, index, index + 1), without(x.dims(), {at}));
}

Value pad(Value x, Value value, const Dims& low, const Dims& high, Dims interior) {
  if (interior.empty()) interior = zeros(low.size());
  return emit(kPad, {x, value}, {{"low", low}, {"high", high}, {"interior", interior}});
}

Value concatenate(const Values& xs, int64_t axis) {
  if (xs.empty()) {
    fail({.id = "ops.concatenate",
          .where = "concatenate",
          .expected = "at least one operand",
          .got = "none"});
  }
  if (xs.size() == 1) return xs[0];
  return emit(kConcatenate, xs, {{"axis", normal_axis(axis, xs[0].rank(), "concatenate")}});
}

Value reverse(Value x, Dims axes) {
  return emit(kReverse, {x}, {{"axes", normal_axes(std::move(axes), x.rank(), "reverse")}});
}

Value dynamic_slice(Value x, const Values& start, const Dims& sizes) {
  Values operands{x};
  operands.insert(operands.end(), start.begin(), start.end());
  return emit(kDynamicSlice, std::move(operands), {{"sizes", sizes}});
}

Value dynamic_update_slice(Value x, Value update, const Values& start) {
  Values operands{x, update};
  operands.insert(operands.end(), start.begin(), start.end());
  return emit(kDynamicUpdateSlice, std::move(operands));
}

namespace {

Values start_at(const Value& x, const Value& index, int64_t axis) {
  Value zero = scalar(x.function(), index.dtype(), 0);
  Values start(x.dims().size(), zero);
  start[static_cast<size_t>(axis)] = index;
  return start;
}

}  // namespace

Value dynamic_index(Value x, Value index, int64_t axis) {
  int64_t at = normal_axis(axis, x.rank(), "dynamic_index");
  Dims sizes = x.dims();
  sizes[static_cast<size_t>(at)] = 1;
  return reshape(dynamic_slice(x, start_at(x, index, at), sizes), without(x.dims(), {at}));
}

Value dynamic_update_index(Value x, Value update, Value index, int64_t axis) {
  int64_t at = normal_axis(axis, x.rank(), "dynamic_update_index");
  Dims slab = x.dims();
  slab[static_cast<size_t>(at)] = 1;
  return dynamic_update_slice(x, reshape(update, slab), start_at(x, index, at));
}

}  // namespace strata::ops
