#include "strata/optim/adafactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::optim {
namespace {

using ir::Value;
using ir::Values;

// Which dims a parameter's second moment is reduced by.
struct Factors {
  int64_t largest, second;
};

std::optional<Factors> factors_of(const sharding::ParamType& type, int64_t least) {
  std::vector<int64_t> dims = array_dims(type);
  auto size = [&](int64_t d) { return type.dims[static_cast<size_t>(d)].size; };
  std::stable_sort(dims.begin(), dims.end(),
                   [&](int64_t a, int64_t b) { return size(a) < size(b); });
  if (dims.size() < 2 || size(dims[dims.size() - 2]) < least) return std::nullopt;
  return Factors{dims.back(), dims[dims.size() - 2]};
}

// Root of the mean square over one layer's array; its dims stay, with size 1.
Value rms(Value x, const std::vector<int64_t>& dims) {
  return ops::sqrt(ops::reduce_mean(x * x, Dims(dims.begin(), dims.end()), true));
}

class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const AdafactorConfig& config) : c_(config) {
    check_not_negative(name(), "decay_power", c_.decay_power);
    check_divisor(name(), "eps", c_.eps);
    check_divisor(name(), "clip_rms", c_.clip_rms);
    check_not_negative(name(), "least_scale", c_.least_scale);
    check_not_negative(name(), "weight_decay", c_.weight_decay);
    if (c_.momentum) check_beta(name(), "momentum", *c_.momentum);
    check_slot_dtype(name(), "m_dtype", c_.m_dtype);
    require(c_.min_factored >= 1, {.id = "optim.hyper_parameter",
                                   .where = "optimiser adafactor, min_factored",
                                   .expected = "a size >= 1",
                                   .got = fmt::format("{}", c_.min_factored)});
  }

  std::string_view name() const override { return "adafactor"; }
  double weight_decay() const override { return c_.weight_decay; }
  bool couples_elements() const override { return true; }

  std::vector<Role> roles(const Parameter& parameter) const override {
    std::vector<Role> all;
    auto reduced = [](int64_t dim) { return Derivation{Derivation::Kind::reduced, {dim}}; };
    if (auto f = factors_of(parameter.type, c_.min_factored)) {
      all.push_back({.name = "adafactor.v_row", .derivation = reduced(f->largest)});
      all.push_back({.name = "adafactor.v_col", .derivation = reduced(f->second)});
    } else {
      all.push_back({.name = "adafactor.v"});
    }
    if (c_.momentum) all.push_back({.name = "adafactor.m", .dtype = c_.m_dtype});
    return all;
  }

  std::vector<NamedScalar> scalars(int64_t count) const override {
    double fresh = std::pow(static_cast<double>(count) + 1, -c_.decay_power);
    std::vector<NamedScalar> rows = {{"b", 1 - fresh},
                                     {"one_minus_b", fresh},
                                     {"eps", c_.eps},
                                     {"clip_rms", c_.clip_rms},
                                     {"least_scale", c_.least_scale}};
    if (c_.momentum) {
      rows.push_back({"momentum", *c_.momentum});
      rows.push_back({"one_minus_momentum", 1 - *c_.momentum});
    }
    return rows;
  }

  Values next_slots(const Parameter& parameter, const Leaf& leaf) const override {
    const Values& s = leaf.scalars;
    Value squares = leaf.gradient * leaf.gradient + s[2];
    auto moment = [&](Value old, Value fresh) { return s[0] * old + s[1] * fresh; };
    Values next;
    if (auto f = factors_of(parameter.type, c_.min_factored)) {
      next = {moment(leaf.slots[0], ops::reduce_mean(squares, {f->largest})),
              moment(leaf.slots[1], ops::reduce_mean(squares, {f->second}))};
    } else {
      next = {moment(leaf.slots[0], squares)};
    }
    if (c_.momentum) {
      next.push_back(s[5] * leaf.slots.back() + s[6] * scaled(parameter, leaf, next));
    }
    return next;
  }

  Value step(const Parameter& parameter, const Leaf& leaf, const Values& next) const override {
    Value u = c_.momentum ? next.back() : scaled(parameter, leaf, next);
    return u + leaf.weight_decay * leaf.parameter;
  }

 private:
  Value direction(const Parameter& parameter, const Leaf& leaf, const Values& next) const {
    auto f = factors_of(parameter.type, c_.min_factored);
    if (!f) return leaf.gradient / ops::sqrt(next[0]);
    // Both slots with the parameter's rank, size 1 where they were reduced.
    Dims row = parameter.type.sizes(), column = row;
    row[static_cast<size_t>(f->largest)] = 1;
    column[static_cast<size_t>(f->second)] = 1;
    Value v_row = ops::reshape(next[0], row), v_col = ops::reshape(next[1], column);
    Value mean = ops::reduce_mean(v_row, {f->second}, true);
    return leaf.gradient / ops::sqrt(v_row / mean) / ops::sqrt(v_col);
  }

  // What the momentum averages: clipped, times the rate and the parameter's scale.
  Value scaled(const Parameter& parameter, const Leaf& leaf, const Values& next) const {
    const std::vector<int64_t> dims = array_dims(parameter.type);
    Value u = direction(parameter, leaf, next);
    Value large = rms(u, dims) / leaf.scalars[3];
    Value factor = leaf.lr / ops::maximum(large, ops::full_like(large, 1));
    if (c_.parameter_scale) {
      Value scale = rms(leaf.parameter, dims);
      factor = factor * ops::maximum(scale, ops::broadcast_to(leaf.scalars[4], scale.dims()));
    }
    return u * factor;
  }

  AdafactorConfig c_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_adafactor(const AdafactorConfig& config) {
  return std::make_shared<Adafactor>(config);
}

}  // namespace strata::optim
