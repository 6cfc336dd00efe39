#include "strata/ops/grouped_dot.h"

#include <algorithm>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/cumulative.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

GroupedDot how_of(const Node& n) {
  return {n.attributes.get<bool>("in_out"), n.attributes.get<int64_t>("block")};
}

bool are_sizes(const Value& v) { return v.dtype() == DType::i32 && v.rank() == 1; }

std::vector<Type> dot_shape(const Node& n) {
  const Value &x = n.operands[0], &w = n.operands[1], &sizes = n.operands[2];
  GroupedDot how = how_of(n);
  bool fits = is_float(x.dtype()) && w.dtype() == x.dtype() && x.rank() == 2 && w.rank() == 3 &&
              are_sizes(sizes) && sizes.dim(0) == w.dim(0) && how.block > 0 &&
              w.dim(how.in_out ? 1 : 2) == x.dim(1);
  if (!fits) {
    misuse(n,
           "rows [M, in], weights " +
               std::string(how.in_out ? "[groups, in, out]" : "[groups, out, in]") +
               " of one floating type, i32 sizes [groups] and a block > 0",
           operand_types(n) + ", block " + std::to_string(how.block));
  }
  return {{x.dtype(), {x.dim(0), w.dim(how.in_out ? 2 : 1)}}};
}

std::vector<Type> outer_shape(const Node& n) {
  const Value &a = n.operands[0], &b = n.operands[1], &sizes = n.operands[2];
  int64_t block = n.attributes.get<int64_t>("block");
  bool fits = is_float(a.dtype()) && b.dtype() == a.dtype() && a.rank() == 2 && b.rank() == 2 &&
              a.dim(0) == b.dim(0) && are_sizes(sizes) && block > 0;
  if (!fits) {
    misuse(n, "rows [M, P] and [M, Q] of one floating type, i32 sizes [groups] and a block > 0",
           operand_types(n) + ", block " + std::to_string(block));
  }
  return {{a.dtype(), {sizes.dim(0), a.dim(1), b.dim(1)}}};
}

Values dot_gradient(Node& n, Cotangents c) {
  Value x = n.operands[0], w = n.operands[1], sizes = n.operands[2];
  GroupedDot how = how_of(n), back = how;
  back.in_out = !how.in_out;
  Value dw = how.in_out ? grouped_outer(x, c[0], sizes, how.block)
                        : grouped_outer(c[0], x, sizes, how.block);
  return {grouped_dot(c[0], w, sizes, back), dw, Value{}};
}

Values outer_gradient(Node& n, Cotangents c) {
  Value a = n.operands[0], b = n.operands[1], sizes = n.operands[2];
  int64_t block = n.attributes.get<int64_t>("block");
  return {grouped_dot(b, c[0], sizes, {.in_out = false, .block = block}),
          grouped_dot(a, c[0], sizes, {.in_out = true, .block = block}), Value{}};
}

Value i32(Function& f, int64_t value) { return scalar(f, DType::i32, static_cast<double>(value)); }

// Which rows belong to which group, as vectors over the groups.
struct Groups {
  Value begin, end;

  Groups(const Value& sizes, int64_t rows) {
    Value counts = maximum(sizes, zeros_like(sizes));
    // Cut before summing too, so that absurd sizes cannot overflow into negative ends.
    Value most = full_like(sizes, static_cast<double>(rows));
    counts = minimum(counts, most);
    end = counts;
    for (int64_t steps = 1; steps < sizes.dim(0); steps *= 2) {
      Value before = pad(end, i32(sizes.function(), 0), {steps}, {-steps});
      end = minimum(add(before, end), most);
    }
    begin = pad(end, i32(sizes.function(), 0), {1}, {-1});
  }
};

// A block of `size` rows that covers rows [row, row + size) as far as they lie below `end`. Near
// the last row it starts earlier, and `valid` says which of its rows count.
struct Block {
  Value at, valid;
  int64_t size;

  Block(const Value& row, const Value& end, int64_t block_size, int64_t rows) : size(block_size) {
    Function& f = row.function();
    at = minimum(row, i32(f, rows - size));
    Value index = add(broadcast_to(at, {size}), iota(f, DType::i32, {size}, 0));
    valid = and_(compare(index, broadcast_to(row, {size}), "GE"),
                 compare(index, broadcast_to(end, {size}), "LT"));
  }
  Values start() const { return {at, i32(at.function(), 0)}; }
  Value read(const Value& x) const { return dynamic_slice(x, start(), {size, x.dim(1)}); }
  Value choose(const Value& inside, const Value& outside) const {
    return select(broadcast_in_dim(valid, inside.dims(), {0}), inside, outside);
  }
};

// One loop over the blocks of all groups: step i finds its group among the groups' first blocks.
Values lower_dot(Node& n, std::span<const Value> operands) {
  Value x = operands[0], w = operands[1];
  Function& f = x.function();
  GroupedDot how = how_of(n);
  int64_t rows = x.dim(0), size = std::min(how.block, rows);
  Value out = full(f, n.results[0].dtype, n.results[0].dims, 0);
  if (rows == 0 || w.dim(0) == 0) return {out};
  Groups groups(operands[2], rows);
  Value spare = full_like(groups.begin, static_cast<double>(size - 1));
  Value blocks = divide(add(subtract(groups.end, groups.begin), spare),
                        full_like(groups.begin, static_cast<double>(size)));
  Value first = cumulative_sum(blocks, 0, {.exclusive = true});
  Value total = reduce_sum(blocks, {0});
  auto more = [&](const Values& v) { return compare(v[0], total, "LT"); };
  auto step = [&](const Values& v) -> Values {
    Value started = compare(first, broadcast_to(v[0], first.dims()), "LE");
    Value group = reduce_sum(convert(started, DType::i32), {0}) - 1.0;
    Value nth = v[0] - dynamic_index(first, group, 0);
    Value row = dynamic_index(groups.begin, group, 0) + nth * static_cast<double>(size);
    Block block(row, dynamic_index(groups.end, group, 0), size, rows);
    Value y = dot_general(block.read(x), dynamic_index(w, group, 0),
                          {.lhs_contract = {1}, .rhs_contract = {how.in_out ? 0 : 1}});
    Value next = dynamic_update_slice(v[1], block.choose(y, block.read(v[1])), block.start());
    return {v[0] + 1.0, next};
  };
  return {while_loop(f, {i32(f, 0), out}, more, step)[1]};
}

// A loop over the groups around one over the blocks of a group, which sums in at least f32.
Values lower_outer(Node& n, std::span<const Value> operands) {
  Value a = operands[0], b = operands[1];
  Function& f = a.function();
  const Type& type = n.results[0];
  int64_t rows = a.dim(0), size = std::min(n.attributes.get<int64_t>("block"), rows);
  Value out = full(f, type.dtype, type.dims, 0);
  if (rows == 0 || type.dims[0] == 0) return {out};
  DType wide = size_of(type.dtype) < size_of(DType::f32) ? DType::f32 : type.dtype;
  Groups groups(operands[2], rows);
  auto group_sum = [&](const Value& group) {
    Value begin = dynamic_index(groups.begin, group, 0);
    Value end = dynamic_index(groups.end, group, 0);
    auto more = [&](const Values& v) { return compare(v[0], end, "LT"); };
    auto step = [&](const Values& v) -> Values {
      Block block(v[0], end, size, rows);
      // Both sides are cleared: rows outside may hold infinities or NaN.
      Value left = block.read(a), right = block.read(b);
      Value part =
          dot_general(block.choose(left, zeros_like(left)), block.choose(right, zeros_like(right)),
                      {.lhs_contract = {0}, .rhs_contract = {0}}, wide);
      return {v[0] + static_cast<double>(size), v[1] + part};
    };
    Value none = full(f, wide, {type.dims[1], type.dims[2]}, 0);
    return convert(while_loop(f, {begin, none}, more, step)[1], type.dtype);
  };
  Value count = i32(f, type.dims[0]);
  return {while_loop(
      f, {i32(f, 0), out}, [&](const Values& v) { return compare(v[0], count, "LT"); },
      [&](const Values& v) -> Values {
        return {v[0] + 1.0, dynamic_update_index(v[1], group_sum(v[0]), v[0], 0)};
      })[1]};
}

}  // namespace

constexpr OpDef kGroupedDot{
    .name = "grouped_dot",
    .arity = 3,
    .shape = dot_shape,
    .gradient = ir::rule(dot_gradient),
    .lower = lower_dot,
};

constexpr OpDef kGroupedOuter{
    .name = "grouped_outer",
    .arity = 3,
    .shape = outer_shape,
    .gradient = ir::rule(outer_gradient),
    .lower = lower_outer,
};

Value grouped_dot(Value x, Value weights, Value group_sizes, GroupedDot how) {
  return emit(kGroupedDot, {x, weights, group_sizes},
              {{"in_out", how.in_out}, {"block", how.block}});
}

Value grouped_outer(Value a, Value b, Value group_sizes, int64_t block) {
  return emit(kGroupedOuter, {a, b, group_sizes}, {{"block", block}});
}

}  // namespace strata::ops
