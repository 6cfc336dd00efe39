#include "strata/ops/gather.h"

#include <algorithm>
#include <numeric>

#include "strata/base/strings.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

bool contains(const Dims& sorted, int64_t axis) {
  return std::binary_search(sorted.begin(), sorted.end(), axis);
}

bool rising_below(const Dims& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i - 1] >= axes[i])) return false;
  }
  return true;
}

GatherDims dims_of(const Node& n) {
  return {n.attributes.get<Dims>("offset"),          n.attributes.get<Dims>("collapsed"),
          n.attributes.get<Dims>("start_index_map"), n.attributes.get<int64_t>("index_vector"),
          n.attributes.get<Dims>("operand_batch"),   n.attributes.get<Dims>("indices_batch")};
}

Attributes attributes_of(const GatherDims& d) {
  return {{"offset", d.offset},
          {"collapsed", d.collapsed},
          {"start_index_map", d.start_index_map},
          {"index_vector", d.index_vector},
          {"operand_batch", d.operand_batch},
          {"indices_batch", d.indices_batch}};
}

// The operand's dims that no window keeps, rising.
Dims dropped(const GatherDims& d) {
  Dims all = d.collapsed;
  all.insert(all.end(), d.operand_batch.begin(), d.operand_batch.end());
  std::sort(all.begin(), all.end());
  return all;
}

// The indices' dims without the one that holds their components.
Dims batch_dims(const Value& indices, const GatherDims& d) {
  return d.index_vector == indices.rank() ? indices.dims()
                                          : without(indices.dims(), {d.index_vector});
}

// Whether the dims that operand and indices share are dims of both, of equal sizes.
bool pairwise(const Node& n, const GatherDims& d) {
  bool same = d.operand_batch.size() == d.indices_batch.size();
  for (size_t i = 0; same && i < d.operand_batch.size(); ++i) {
    int64_t mine = d.operand_batch[i], theirs = d.indices_batch[i];
    same = theirs >= 0 && theirs < n.operands[1].rank() && theirs != d.index_vector &&
           n.operands[0].dim(mine) == n.operands[1].dim(theirs);
  }
  return same;
}

// Whether indices, map and axes belong together; what both shape rules check first.
bool consistent(const Node& n, const GatherDims& d) {
  const Value &x = n.operands[0], &indices = n.operands[1];
  if (!is_integer(indices.dtype()) || d.index_vector < 0 || d.index_vector > indices.rank()) {
    return false;
  }
  int64_t components = d.index_vector == indices.rank() ? 1 : indices.dim(d.index_vector);
  Dims map = d.start_index_map;
  std::sort(map.begin(), map.end());
  auto batch = static_cast<int64_t>(batch_dims(indices, d).size());
  return components == static_cast<int64_t>(map.size()) && rising_below(map, x.rank()) &&
         rising_below(dropped(d), x.rank()) && rising_below(d.operand_batch, x.rank()) &&
         d.offset.size() + dropped(d).size() == x.dims().size() &&
         rising_below(d.offset, batch + static_cast<int64_t>(d.offset.size())) && pairwise(n, d);
}

std::string dims_text(const GatherDims& d) {
  return "offset " + list_text(d.offset) + ", collapsed " + list_text(d.collapsed) +
         ", start_index_map " + list_text(d.start_index_map) + ", index_vector " +
         std::to_string(d.index_vector) + ", operand_batch " + list_text(d.operand_batch) +
         ", indices_batch " + list_text(d.indices_batch);
}

// Batch and window dims woven together: `window` at the offset axes, `batch` at the others.
Dims woven(const GatherDims& d, const Dims& batch, const Dims& window) {
  Dims out;
  size_t b = 0, w = 0;
  for (size_t i = 0; i < batch.size() + window.size(); ++i) {
    out.push_back(contains(d.offset, static_cast<int64_t>(i)) ? window[w++] : batch[b++]);
  }
  return out;
}

std::vector<Type> gather_shape(const Node& n) {
  GatherDims d = dims_of(n);
  const Type& x = n.operands[0].type();
  const Dims& sizes = n.attributes.get<Dims>("slice_sizes");
  bool fits = consistent(n, d) && sizes.size() == x.dims.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i) {
    int64_t most = contains(dropped(d), static_cast<int64_t>(i)) ? 1 : x.dims[i];
    fits = sizes[i] >= 0 && sizes[i] <= std::min(most, x.dims[i]);
  }
  if (!fits) {
    misuse(n, "integer indices, dimension numbers that fit both and slice sizes within the operand",
           operand_types(n) + " with " + dims_text(d) + ", slice sizes " + list_text(sizes));
  }
  return {{x.dtype, woven(d, batch_dims(n.operands[1], d), without(sizes, dropped(d)))}};
}

// The size of a window along each operand dim, read off the updates.
Dims window_sizes(const Value& operand, const Value& updates, const GatherDims& d) {
  Dims out;
  size_t w = 0;
  for (int64_t i = 0; i < operand.rank(); ++i) {
    out.push_back(contains(dropped(d), i) ? 1 : updates.dim(d.offset[w++]));
  }
  return out;
}

std::vector<Type> scatter_shape(const Node& n) {
  GatherDims d = dims_of(n);
  const Type& x = n.operands[0].type();
  const Value& updates = n.operands[2];
  bool fits = consistent(n, d) && updates.dtype() == x.dtype &&
              updates.dims().size() == batch_dims(n.operands[1], d).size() + d.offset.size();
  if (fits) {
    Dims window = window_sizes(n.operands[0], updates, d);
    for (size_t i = 0; i < window.size(); ++i) fits = fits && window[i] <= x.dims[i];
    Dims expected = woven(d, batch_dims(n.operands[1], d), without(window, dropped(d)));
    fits = fits && updates.dims() == expected;
  }
  if (!fits) {
    misuse(n, "integer indices, dimension numbers that fit and updates of the operand's type",
           operand_types(n) + " with " + dims_text(d));
  }
  return {x};
}

// The largest start of each index component at which a window fits, shaped like the indices.
Value last_starts(const Value& operand, const Value& indices, const GatherDims& d,
                  const Dims& window) {
  DType dtype = indices.dtype();
  int bits = static_cast<int>(size_of(dtype) * 8) - (is_unsigned_integer(dtype) ? 0 : 1);
  int64_t most = bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
  HostTensor last(dtype, {static_cast<int64_t>(d.start_index_map.size())});
  for (size_t i = 0; i < d.start_index_map.size(); ++i) {
    int64_t axis = d.start_index_map[i];
    int64_t bound = operand.dim(axis) - window[static_cast<size_t>(axis)];
    last.set(static_cast<int64_t>(i), static_cast<double>(std::min(bound, most)));
  }
  Value v = constant(indices.function(), std::make_shared<const HostTensor>(std::move(last)));
  if (d.index_vector < indices.rank()) {
    return broadcast_in_dim(v, indices.dims(), {d.index_vector});
  }
  v = reshape(v, {});
  return indices.rank() == 0 ? v : broadcast_in_dim(v, indices.dims(), {});
}

Values gather_gradient(Node& n, Cotangents c) {
  Value x = n.operands[0], indices = n.operands[1];
  GatherDims d = dims_of(n);
  // Gather clamps where scatter drops, so the starts are clamped by hand.
  Value last = last_starts(x, indices, d, n.attributes.get<Dims>("slice_sizes"));
  Value starts = clamp(zeros_like(indices), indices, last);
  return {scatter_add(zeros_like(x), starts, c[0], d), Value{}};
}

// Whether a window fits, shaped like the updates.
Value fits_mask(const Value& operand, const Value& indices, const Value& updates,
                const GatherDims& d) {
  Value last = last_starts(operand, indices, d, window_sizes(operand, updates, d));
  Value inside = and_(compare(indices, zeros_like(indices), "GE"), compare(indices, last, "LE"));
  if (d.index_vector < indices.rank()) inside = reduce_and(inside, {d.index_vector});
  Dims all(updates.dims().size());
  std::iota(all.begin(), all.end(), 0);
  return broadcast_in_dim(inside, updates.dims(), without(all, d.offset));
}

Values scatter_gradient(Node& n, Cotangents c) {
  Value x = n.operands[0], indices = n.operands[1], updates = n.operands[2];
  GatherDims d = dims_of(n);
  Value read = gather(c[0], indices, d, window_sizes(x, updates, d));
  Value du = select(fits_mask(x, indices, updates, d), read, zeros_like(updates));
  bool adds = n.attributes.get<std::string>("kind") == "add";
  return {adds ? c[0] : scatter(c[0], indices, zeros_like(updates), d), Value{}, du};
}

// Left out where there are none.
std::string batching_text(const GatherDims& d, const char* operand, const char* indices) {
  if (d.operand_batch.empty()) return "";
  return std::string(", ") + operand + " = " + list_text(d.operand_batch) + ", " + indices + " = " +
         list_text(d.indices_batch);
}

AttributeTexts print_gather(const Node& n) {
  GatherDims d = dims_of(n);
  std::string batching = batching_text(d, "operand_batching_dims", "start_indices_batching_dims");
  return {
      {"dimension_numbers", "#stablehlo.gather<offset_dims = " + list_text(d.offset) +
                                ", collapsed_slice_dims = " + list_text(d.collapsed) + batching +
                                ", start_index_map = " + list_text(d.start_index_map) +
                                ", index_vector_dim = " + std::to_string(d.index_vector) + ">"},
      {"slice_sizes", array_text(n.attributes.get<Dims>("slice_sizes"))},
      {"indices_are_sorted", "false"}};
}

AttributeTexts print_scatter(const Node& n) {
  GatherDims d = dims_of(n);
  std::string batching = batching_text(d, "input_batching_dims", "scatter_indices_batching_dims");
  return {{"scatter_dimension_numbers",
           "#stablehlo.scatter<update_window_dims = " + list_text(d.offset) +
               ", inserted_window_dims = " + list_text(d.collapsed) + batching +
               ", scatter_dims_to_operand_dims = " + list_text(d.start_index_map) +
               ", index_vector_dim = " + std::to_string(d.index_vector) + ">"},
          {"indices_are_sorted", "false"},
          {"unique_indices", "false"}};
}

Value emit_scatter(std::string_view kind, Value operand, Value indices, Value updates,
                   const GatherDims& dims) {
  Function& f = operand.function();
  ir::RegionScope scope(f);
  Value old = scope.parameter({operand.dtype(), {}});
  Value update = scope.parameter({operand.dtype(), {}});
  scope.close({kind == "add" ? add(old, update) : update});
  std::vector<std::unique_ptr<ir::Region>> regions;
  regions.push_back(scope.take());
  Attributes attributes = attributes_of(dims);
  attributes.set("kind", std::string(kind));
  return f.add(kScatter, {operand, indices, updates}, std::move(attributes), std::move(regions))
      .result();
}

// Indices along one axis extended to whole positions: (indices' dims…, rank).
Value positions(const Value& operand, const Value& indices, int64_t axis, std::string_view op) {
  Dims expected = operand.dims();
  bool same_rank = indices.rank() == operand.rank();
  if (same_rank) expected[static_cast<size_t>(axis)] = indices.dim(axis);
  if (!same_rank || indices.dims() != expected || !is_integer(indices.dtype())) {
    fail({.id = "ops.along_axis",
          .where = std::string(op),
          .expected = "integer indices with the dims of " + ir::text(operand.type()) +
                      " but for axis " + std::to_string(axis),
          .got = ir::text(indices.type())});
  }
  Dims column = indices.dims();
  column.push_back(1);
  Values columns;
  for (int64_t i = 0; i < operand.rank(); ++i) {
    columns.push_back(i == axis ? reshape(indices, column)
                                : iota(indices.function(), indices.dtype(), column, i));
  }
  return concatenate(columns, -1);
}

// Each index is a whole position; each window one element.
GatherDims pointwise(int64_t rank) {
  Dims all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return {.offset = {}, .collapsed = all, .start_index_map = all, .index_vector = rank};
}

}  // namespace

constexpr OpDef kGather{
    .name = "gather",
    .arity = 2,
    .shape = gather_shape,
    .gradient = ir::rule(gather_gradient),
    .print = print_gather,
};

constexpr OpDef kScatter{
    .name = "scatter",
    .arity = 3,
    .shape = scatter_shape,
    .gradient = ir::rule(scatter_gradient),
    .print = print_scatter,
};

Value gather(Value operand, Value indices, const GatherDims& dims, const Dims& slice_sizes) {
  Attributes attributes = attributes_of(dims);
  attributes.set("slice_sizes", slice_sizes);
  return emit(kGather, {operand, indices}, std::move(attributes));
}

Value scatter_add(Value operand, Value indices, Value updates, const GatherDims& dims) {
  return emit_scatter("add", operand, indices, updates, dims);
}

Value scatter(Value operand, Value indices, Value updates, const GatherDims& dims) {
  return emit_scatter("set", operand, indices, updates, dims);
}

Value take(Value operand, Value indices, int64_t axis) {
  int64_t at = normal_axis(axis, operand.rank(), "take");
  Dims sizes = operand.dims();
  sizes[static_cast<size_t>(at)] = std::min<int64_t>(1, sizes[static_cast<size_t>(at)]);
  Dims offset;
  for (int64_t i = 0; i < operand.rank(); ++i) {
    if (i != at) offset.push_back(i < at ? i : i - 1 + indices.rank());
  }
  return gather(operand, indices,
                {.offset = offset,
                 .collapsed = {at},
                 .start_index_map = {at},
                 .index_vector = indices.rank()},
                sizes);
}

Value take_rows(Value operand, Value indices) {
  bool fits = operand.rank() >= 2 && indices.rank() == 2 && operand.dim(0) == indices.dim(0);
  if (!fits) {
    fail({.id = "ops.take_rows",
          .where = "take_rows",
          .expected = "an operand (S, P, ...) and indices (S, N)",
          .got = ir::text(operand.type()) + " and " + ir::text(indices.type())});
  }
  Dims sizes = operand.dims(), offset;
  sizes[0] = sizes[1] = 1;
  for (int64_t i = 2; i < operand.rank(); ++i) offset.push_back(i);
  return gather(operand, indices,
                {.offset = offset,
                 .collapsed = {1},
                 .start_index_map = {1},
                 .index_vector = 2,
                 .operand_batch = {0},
                 .indices_batch = {0}},
                sizes);
}

Value take_along_axis(Value operand, Value indices, int64_t axis) {
  int64_t at = normal_axis(axis, operand.rank(), "take_along_axis");
  return gather(operand, positions(operand, indices, at, "take_along_axis"),
                pointwise(operand.rank()), Dims(operand.dims().size(), 1));
}

Value put_along_axis(Value like, Value indices, Value updates, int64_t axis) {
  int64_t at = normal_axis(axis, like.rank(), "put_along_axis");
  return scatter_add(zeros_like(like), positions(like, indices, at, "put_along_axis"), updates,
                     pointwise(like.rank()));
}

}  // namespace strata::ops
