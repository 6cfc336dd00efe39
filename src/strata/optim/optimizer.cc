#include "strata/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/ops/arithmetic.h"

namespace strata::optim {
namespace {

using sharding::ParamType;

std::string where_of(std::string_view optimizer, std::string_view field) {
  return fmt::format("optimiser {}, {}", optimizer, field);
}

ParamType reduced(const ParamType& type, const std::vector<int64_t>& dims,
                  const std::string& path) {
  ParamType out = {.dtype = type.dtype};
  size_t next = 0;
  for (int64_t i = 0; i < type.rank(); ++i) {
    const sharding::Dim& dim = type.dims[static_cast<size_t>(i)];
    bool drop = next < dims.size() && dims[next] == i && dim.role == sharding::Role::none;
    next += drop ? 1 : 0;
    if (!drop) out.dims.push_back(dim);
  }
  require(next == dims.size(), {.id = "optim.derivation",
                                .where = "slot " + path,
                                .expected = "ascending positions of dims of " + text_of(type) +
                                            " that are no layer dims",
                                .got = list_text(dims)});
  return out;
}

}  // namespace

ParamType derived_type(const ParamType& type, const Derivation& derivation, DType dtype,
                       const std::string& path) {
  ParamType out = type;
  if (derivation.kind == Derivation::Kind::scalar) out.dims.clear();
  if (derivation.kind == Derivation::Kind::reduced) out = reduced(type, derivation.dims, path);
  out.dtype = dtype;
  return out;
}

std::vector<SlotSpec> slots_of(const Optimizer& optimizer, std::span<const Parameter> parameters) {
  std::vector<SlotSpec> slots;
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const Optimizer::Role& role : optimizer.roles(parameters[i])) {
      std::string name = role.name + "/" + parameters[i].name;
      ParamType type = derived_type(parameters[i].type, role.derivation, role.dtype, name);
      slots.push_back({std::move(name), static_cast<int64_t>(i), role.derivation, std::move(type)});
    }
  }
  return slots;
}

std::vector<int64_t> array_dims(const ParamType& type) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < type.rank(); ++i) {
    const sharding::Dim& dim = type.dims[static_cast<size_t>(i)];
    if (dim.role == sharding::Role::none && dim.name != "experts") positions.push_back(i);
  }
  return positions;
}

ir::Value decoupled(const Optimizer::Leaf& leaf, ir::Value direction) {
  return leaf.lr * (direction + leaf.weight_decay * leaf.parameter);
}

void check_beta(std::string_view optimizer, std::string_view field, double value) {
  require(value >= 0 && value < 1, {.id = "optim.hyper_parameter",
                                    .where = where_of(optimizer, field),
                                    .expected = "a number in [0, 1)",
                                    .got = fmt::format("{}", value)});
}

void check_not_negative(std::string_view optimizer, std::string_view field, double value) {
  require(std::isfinite(value) && value >= 0, {.id = "optim.hyper_parameter",
                                               .where = where_of(optimizer, field),
                                               .expected = "a finite number >= 0",
                                               .got = fmt::format("{}", value)});
}

void check_divisor(std::string_view optimizer, std::string_view field, double value) {
  constexpr double least = std::numeric_limits<float>::min();
  require(std::isfinite(value) && value >= least,
          {.id = "optim.hyper_parameter",
           .where = where_of(optimizer, field),
           .expected = fmt::format("a finite number >= {:.3g}", least),
           .got = fmt::format("{}", value)});
}

void check_slot_dtype(std::string_view optimizer, std::string_view field, DType dtype) {
  require(dtype == DType::f32 || dtype == DType::bf16, {.id = "optim.slot_dtype",
                                                        .where = where_of(optimizer, field),
                                                        .expected = "f32 or bf16",
                                                        .got = std::string(name_of(dtype))});
}

}  // namespace strata::optim
