#include "strata/sharding/dim.h"

#include <fmt/format.h>

#include "strata/base/error.h"

namespace strata::sharding {

std::string_view name_of(Role role) {
  switch (role) {
    case Role::none:
      return "none";
    case Role::layer:
      return "layer";
    case Role::inner_layer:
      return "inner_layer";
  }
  return "none";
}

Role parse_role(std::string_view name) {
  for (Role role : {Role::none, Role::layer, Role::inner_layer}) {
    if (name_of(role) == name) return role;
  }
  fail({.id = "sharding.role_name",
        .expected = "a dim role, one of none, layer, inner_layer",
        .got = "'" + std::string(name) + "'"});
}

Dims ParamType::sizes() const {
  Dims sizes;
  sizes.reserve(dims.size());
  for (const Dim& dim : dims) sizes.push_back(dim.size);
  return sizes;
}

int64_t ParamType::elements() const { return element_count(sizes()); }

int64_t ParamType::bytes() const {
  int64_t total = 0;
  bool overflow = __builtin_mul_overflow(elements(), static_cast<int64_t>(size_of(dtype)), &total);
  require(!overflow, {.id = "sharding.bytes_overflow",
                      .where = text_of(*this),
                      .expected = "fewer than 2^63 bytes",
                      .got = "an overflow",
                      .code = Code::out_of_range});
  return total;
}

std::optional<int64_t> ParamType::position_of(Role role) const {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].role == role) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

ParamType plain_type(DType dtype, const Dims& sizes) {
  ParamType type{dtype};
  for (int64_t size : sizes) type.dims.push_back(Dim{size});
  return type;
}

std::string text_of(const ParamType& type) {
  std::string text = std::string(strata::name_of(type.dtype)) + "[";
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const Dim& dim = type.dims[i];
    if (i > 0) text += ", ";
    text += dim.name;
    if (dim.role != Role::none) text += fmt::format("({})", name_of(dim.role));
    if (!dim.name.empty() || dim.role != Role::none) text += ":";
    text += std::to_string(dim.size);
    if (!dim.axes.empty()) text += fmt::format("@{}", fmt::join(dim.axes, "+"));
  }
  return text + "]";
}

int64_t normalised_stack_axis(int64_t axis, int64_t rank, const std::string& path) {
  int64_t position = axis < 0 ? axis + rank + 1 : axis;
  require(position >= 0, {.id = "sharding.stack_axis",
                          .where = path,
                          .expected = fmt::format("a stack axis of at least {}", -rank - 1),
                          .got = std::to_string(axis),
                          .code = Code::out_of_range});
  return position > rank ? rank : position;
}

ParamType insert_layer_dim(const ParamType& type, int64_t axis, const Dim& layer,
                           const std::string& path) {
  require(layer.role != Role::none, {.id = "sharding.stack_role",
                                     .where = path,
                                     .expected = "a stack dim with role layer or inner_layer",
                                     .got = "role none"});
  require(!type.position_of(layer.role),
          {.id = "sharding.stacked_twice",
           .where = path,
           .expected = fmt::format("a type without a dim of role {}", name_of(layer.role)),
           .got = text_of(type),
           .cure = "Unstack it first, or stack it on another role"});
  require(layer.size >= 0, {.id = "sharding.stack_size",
                            .where = path,
                            .expected = "a number of layers >= 0",
                            .got = std::to_string(layer.size)});
  ParamType stacked = type;
  stacked.dims.insert(stacked.dims.begin() + normalised_stack_axis(axis, type.rank(), path), layer);
  return stacked;
}

ParamType erase_layer_dim(const ParamType& type, Role role, const std::string& path) {
  std::optional<int64_t> position = type.position_of(role);
  require(role != Role::none && position.has_value(),
          {.id = "sharding.not_stacked",
           .where = path,
           .expected = role == Role::none ? "role layer or inner_layer"
                                          : fmt::format("a dim of role {}", name_of(role)),
           .got = text_of(type)});
  ParamType single = type;
  single.dims.erase(single.dims.begin() + *position);
  return single;
}

}  // namespace strata::sharding
