#include "strata/ops/constant.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

const HostTensor& tensor_of(const Node& n) {
  return *n.attributes.get<std::shared_ptr<const HostTensor>>("value");
}

// One element: hexadecimal bits for floats (exact, also NaN and infinities), decimal otherwise.
std::string element_text(const HostTensor& t, int64_t i) {
  size_t size = size_of(t.dtype());
  uint64_t bits = 0;
  std::memcpy(&bits, t.bytes() + static_cast<size_t>(i) * size, size);
  if (t.dtype() == DType::pred) return bits != 0 ? "true" : "false";
  if (is_float(t.dtype())) return fmt::format("0x{:0{}X}", bits, size * 2);
  if (is_unsigned_integer(t.dtype())) return std::to_string(bits);
  if (t.dtype() == DType::i64) return std::to_string(static_cast<int64_t>(bits));
  return std::to_string(static_cast<int64_t>(t.at(i)));
}

std::string hex_bytes(const HostTensor& t) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string text = "\"0x";
  for (size_t i = 0; i < t.byte_size(); ++i) {
    auto b = std::to_integer<unsigned>(t.bytes()[i]);
    text += kHex[b >> 4];
    text += kHex[b & 15];
  }
  return text + "\"";
}

// MLIR packs i1 into bits, so predicates are written as a nested list instead.
std::string list_of(const HostTensor& t, size_t axis, int64_t& at) {
  if (axis == t.dims().size()) return element_text(t, at++);
  std::string text = "[";
  for (int64_t i = 0; i < t.dims()[axis]; ++i) {
    text += (i > 0 ? ", " : "") + list_of(t, axis + 1, at);
  }
  return text + "]";
}

AttributeTexts print_constant(const Node& n) {
  const HostTensor& t = tensor_of(n);
  std::string value;
  int64_t at = 0;
  if (t.size() == 1) {
    value = element_text(t, 0);
  } else if (t.size() > 0) {
    value = t.dtype() == DType::pred ? list_of(t, 0, at) : hex_bytes(t);
  }
  return {{"value", "dense<" + value + "> : " + ir::mlir_text(n.results[0])}};
}

}  // namespace

constexpr OpDef kConstant{
    .name = "constant",
    .arity = 0,
    .shape = [](const Node& n) -> std::vector<Type> {
      return {{tensor_of(n).dtype(), tensor_of(n).dims()}};
    },
    .gradient = NoGradient,
    .print = print_constant,
    .cost = Cost::free,
};

constexpr OpDef kIota{
    .name = "iota",
    .arity = 0,
    .shape = [](const Node& n) -> std::vector<Type> {
      Type type{static_cast<DType>(n.attributes.get<int64_t>("dtype")),
                n.attributes.get<Dims>("dims")};
      int64_t axis = n.attributes.get<int64_t>("axis");
      if (type.dtype == DType::pred || axis < 0 || axis >= type.rank()) {
        misuse(n, "a numeric type and an axis below its rank",
               ir::text(type) + " along axis " + std::to_string(axis));
      }
      return {type};
    },
    .gradient = NoGradient,
    .print = [](const Node& n) -> AttributeTexts {
      return {{"iota_dimension", std::to_string(n.attributes.get<int64_t>("axis")) + " : i64"}};
    },
    .cost = Cost::free,
};

Value constant(Function& f, std::shared_ptr<const HostTensor> value) {
  return f.add(kConstant, {}, {{"value", std::move(value)}}).result();
}

Value scalar(Function& f, DType dtype, double value) {
  HostTensor t(dtype, {});
  t.set(0, value);
  return constant(f, std::make_shared<const HostTensor>(std::move(t)));
}

Value full(Function& f, DType dtype, const Dims& dims, double value) {
  Value s = scalar(f, dtype, value);
  return dims.empty() ? s : broadcast_in_dim(s, dims, {});
}

Value full_like(const Value& x, double value) {
  return full(x.function(), x.dtype(), x.dims(), value);
}

namespace {

// A rank-0 integer by its bits, of which a double holds only 53.
Value integer(Function& f, DType dtype, uint64_t bits) {
  HostTensor t(dtype, {});
  std::memcpy(t.bytes(), &bits, size_of(dtype));
  return constant(f, std::make_shared<const HostTensor>(std::move(t)));
}

// All ones in the width of `dtype`, without the sign bit.
uint64_t greatest_bits(DType dtype) {
  size_t bits = size_of(dtype) * 8 - (is_signed_integer(dtype) ? 1 : 0);
  return dtype == DType::pred ? 1 : ~uint64_t{0} >> (64 - bits);
}

}  // namespace

Value lowest(Function& f, DType dtype) {
  if (is_float(dtype)) return scalar(f, dtype, -std::numeric_limits<double>::infinity());
  return integer(f, dtype, is_signed_integer(dtype) ? ~greatest_bits(dtype) : 0);
}

Value highest(Function& f, DType dtype) {
  if (is_float(dtype)) return scalar(f, dtype, std::numeric_limits<double>::infinity());
  return integer(f, dtype, greatest_bits(dtype));
}

Value iota(Function& f, DType dtype, const Dims& dims, int64_t axis) {
  return f.add(kIota, {}, {{"dtype", static_cast<int64_t>(dtype)}, {"dims", dims}, {"axis", axis}})
      .result();
}

}  // namespace strata::ops
