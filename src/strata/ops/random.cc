#include "strata/ops/random.h"

#include <cmath>
#include <map>
#include <numbers>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

bool is_key(const Value& v) { return v.type() == Type{DType::u32, {2}}; }

std::vector<Type> threefry_shape(const Node& n) {
  const Type& x = n.operands[1].type();
  if (!is_key(n.operands[0]) || x.dtype != DType::u32 || x != n.operands[2].type()) {
    misuse(n, "a key 2xu32 and two equal types of u32", operand_types(n));
  }
  return {x, x};
}

// Full-shape constants of one threefry call, made once each.
class Words {
 public:
  explicit Words(Value like) : like_(like) {}

  Value word(uint32_t value) {
    Value& v = made_[value];
    if (!v) v = full_like(like_, value);
    return v;
  }
  Value rotate_left(Value x, uint32_t by) {
    return or_(shift_left(x, word(by)), shift_right_logical(x, word(32 - by)));
  }

 private:
  Value like_;
  std::map<uint32_t, Value> made_;
};

Values lower_threefry(Node&, std::span<const Value> operands) {
  constexpr uint32_t kParity = 0x1BD11BDA;
  constexpr uint32_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Value x = operands[1], y = operands[2];
  Value first = select_index(operands[0], 0, 0), second = select_index(operands[0], 0, 1);
  Value third = xor_(xor_(first, second), full_like(first, kParity));
  Value schedule[3];
  schedule[0] = broadcast_to(first, x.dims());
  schedule[1] = broadcast_to(second, x.dims());
  schedule[2] = broadcast_to(third, x.dims());
  Words words(x);
  x = add(x, schedule[0]);
  y = add(y, schedule[1]);
  for (uint32_t round = 0; round < 5; ++round) {
    for (uint32_t rotation : kRotations[round % 2]) {
      x = add(x, y);
      y = xor_(x, words.rotate_left(y, rotation));
    }
    x = add(x, schedule[(round + 1) % 3]);
    y = add(add(y, schedule[(round + 2) % 3]), words.word(round + 1));
  }
  return {x, y};
}

struct Pair {
  Value first, second;
};

Pair threefry(Value key, Value x, Value y) {
  Function& f = key.function();
  Node& node = f.add(kThreefry2x32, {key, x, y});
  return {node.result(0), node.result(1)};
}

// The position of each element in row-major order, as upper and lower words.
Pair counters(Function& f, const Dims& dims) {
  bool small = element_count(dims) <= int64_t{1} << 32;
  DType dtype = small ? DType::u32 : DType::u64;
  Value at = full(f, dtype, dims, 0);
  int64_t stride = 1;
  for (auto axis = static_cast<int64_t>(dims.size()) - 1; axis >= 0; --axis) {
    Value along = iota(f, dtype, dims, axis);
    at = add(at, multiply(along, full_like(along, static_cast<double>(stride))));
    stride *= dims[static_cast<size_t>(axis)];
  }
  if (small) return {full(f, DType::u32, dims, 0), at};
  Value upper = shift_right_logical(at, full_like(at, 32));
  return {convert(upper, DType::u32), convert(at, DType::u32)};
}

// Bits of a float: how many are mantissa, and the least normal number.
struct Format {
  int mantissa;
  DType bits;    // the unsigned type of its width
  DType drawn;   // the unsigned type that is drawn
  double least;  // normal
};

Format format_of(DType dtype, std::string_view op) {
  switch (dtype) {
    case DType::f16:
      return {10, DType::u16, DType::u16, std::ldexp(1.0, -14)};
    case DType::bf16:  // 7 bits of mantissa need a byte only
      return {7, DType::u16, DType::u8, std::ldexp(1.0, -126)};
    case DType::f32:
      return {23, DType::u32, DType::u32, std::ldexp(1.0, -126)};
    case DType::f64:
      return {52, DType::u64, DType::u64, std::ldexp(1.0, -1022)};
    default:
      fail({.id = "ops.random_float",
            .where = std::string(op),
            .expected = "f16, bf16, f32 or f64",
            .got = std::string(name_of(dtype))});
  }
}

}  // namespace

constexpr OpDef kThreefry2x32{
    .name = "threefry2x32",
    .arity = 3,
    .shape = threefry_shape,
    .gradient = NoGradient,
    .lower = lower_threefry,
    .cost = Cost::elementwise,
};

Value key(Function& f, uint64_t seed) {
  const std::vector<uint32_t> words{static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)};
  return constant(f, std::make_shared<const HostTensor>(HostTensor::of<uint32_t>({2}, words)));
}

Value fold_in(Value key, Value data) {
  if (data.rank() != 0 || !is_integer(data.dtype())) {
    fail({.id = "ops.fold_in",
          .where = place(*data.node),
          .expected = "a rank-0 integer",
          .got = ir::text(data.type())});
  }
  Value low = reshape(convert(data, DType::u32), {1});
  Pair out = threefry(key, zeros_like(low), low);
  return concatenate({out.first, out.second}, 0);
}

Value fold_in(Value key, uint32_t data) {
  return fold_in(key, scalar(key.function(), DType::u32, data));
}

Value split(Value key, int64_t count) {
  Pair at = counters(key.function(), {count});
  Pair out = threefry(key, at.first, at.second);
  return concatenate({reshape(out.first, {count, 1}), reshape(out.second, {count, 1})}, 1);
}

Value random_bits(Value key, DType dtype, const Dims& dims) {
  if (!is_unsigned_integer(dtype)) {
    fail({.id = "ops.random_bits",
          .where = "random_bits",
          .expected = "u8, u16, u32 or u64",
          .got = std::string(name_of(dtype))});
  }
  Pair at = counters(key.function(), dims);
  Pair out = threefry(key, at.first, at.second);
  if (dtype != DType::u64) return convert(xor_(out.first, out.second), dtype);
  Value upper = convert(out.first, dtype);
  return or_(shift_left(upper, full_like(upper, 32)), convert(out.second, dtype));
}

Value uniform(Value key, DType dtype, const Dims& dims, double low, double high) {
  Format format = format_of(dtype, "uniform");
  // Random mantissa bits under the exponent of 1 give [1, 2).
  Value bits = convert(random_bits(key, format.drawn, dims), format.bits);
  auto spare = static_cast<double>(size_of(format.drawn) * 8) - format.mantissa;
  bits = shift_right_logical(bits, full_like(bits, spare));
  Value one = full(key.function(), dtype, dims, 1);
  Value floats = bitcast_convert(or_(bits, bitcast_convert(one, format.bits)), dtype) - one;
  Value least = full_like(floats, low);
  return maximum(least, floats * (full_like(floats, high) - least) + least);
}

Value normal(Value key, DType dtype, const Dims& dims) {
  // From the number after -1 on, so that erf_inv stays finite.
  double after = -1 + std::ldexp(1.0, -format_of(dtype, "normal").mantissa - 1);
  return std::numbers::sqrt2 * erf_inv(uniform(key, dtype, dims, after, 1));
}

Value gumbel(Value key, DType dtype, const Dims& dims) {
  double least = format_of(dtype, "gumbel").least;
  return negate(log(negate(log(uniform(key, dtype, dims, least, 1)))));
}

Value categorical(Value key, Value logits, int64_t axis) {
  return argmax(gumbel(key, logits.dtype(), logits.dims()) + logits, axis);
}

Value bernoulli(Value key, Value p) { return compare(uniform(key, p.dtype(), p.dims()), p, "LT"); }

}  // namespace strata::ops
