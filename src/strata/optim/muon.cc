#include "strata/optim/muon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::optim {
namespace {

using ir::Value;
using ir::Values;

// Scalars of matrices; AdamW's follow.
constexpr size_t kOwnScalars = 5;

bool orthogonal(const Parameter& p) { return !p.elementwise && array_dims(p.type).size() == 2; }

// Batch dims first, then rows and columns.
Dims matrix_order(const sharding::ParamType& type) {
  std::vector<int64_t> matrix = array_dims(type);
  Dims order;
  for (int64_t i = 0; i < type.rank(); ++i) {
    if (std::find(matrix.begin(), matrix.end(), i) == matrix.end()) order.push_back(i);
  }
  order.insert(order.end(), matrix.begin(), matrix.end());
  return order;
}

Dims inverse(const Dims& order) {
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
}

// Products of matrices in the last two dims; `contract` names the dim of each that is summed.
Value product(Value x, int64_t contract_x, Value y, int64_t contract_y) {
  const int64_t batch = static_cast<int64_t>(x.dims().size()) - 2;
  ops::DotDims dims = {.lhs_contract = {batch + contract_x}, .rhs_contract = {batch + contract_y}};
  for (int64_t i = 0; i < batch; ++i) {
    dims.lhs_batch.push_back(i);
    dims.rhs_batch.push_back(i);
  }
  return ops::dot_general(x, y, dims);
}

// One step of the quintic Newton-Schulz iteration. The smaller of X Xᵀ and Xᵀ X is formed, which is
// the same as to transpose a tall X.
Value newton_schulz(Value x) {
  const size_t rank = x.dims().size();
  const bool tall = x.dims()[rank - 2] > x.dims()[rank - 1];
  const int64_t summed = tall ? 0 : 1;
  Value a = product(x, summed, x, summed);
  Value polynomial = -4.7750 * a + 2.0315 * product(a, 1, a, 0);
  Value higher = tall ? product(x, 1, polynomial, 0) : product(polynomial, 1, x, 0);
  return 3.4445 * x + higher;
}

class Muon : public Optimizer {
 public:
  explicit Muon(const MuonConfig& config) : c_(config), rest_(make_adamw(rest_of(config))) {
    check_beta(name(), "beta", c_.beta);
    check_divisor(name(), "eps", c_.eps);
    check_not_negative(name(), "weight_decay", c_.weight_decay);
    check_slot_dtype(name(), "m_dtype", c_.m_dtype);
    require(c_.steps >= 1 && c_.steps <= 20, {.id = "optim.hyper_parameter",
                                              .where = "optimiser muon, steps",
                                              .expected = "a number in [1, 20]",
                                              .got = fmt::format("{}", c_.steps)});
  }

  std::string_view name() const override { return "muon"; }
  double weight_decay() const override { return c_.weight_decay; }
  bool couples_elements() const override { return true; }

  std::vector<Role> roles(const Parameter& parameter) const override {
    if (!orthogonal(parameter)) return rest_->roles(parameter);
    return {{.name = "muon.m", .dtype = c_.m_dtype}};
  }

  std::vector<NamedScalar> scalars(int64_t count) const override {
    double t = static_cast<double>(count) + 1;
    std::vector<NamedScalar> rows = {{"beta", c_.beta},
                                     {"one_minus_beta", 1 - c_.beta},
                                     {"c_beta", 1 - std::pow(c_.beta, t)},
                                     {"c_beta_next", 1 - std::pow(c_.beta, t + 1)},
                                     {"muon_eps", c_.eps}};
    for (NamedScalar& row : rest_->scalars(count)) rows.push_back(std::move(row));
    return rows;
  }

  Values next_slots(const Parameter& parameter, const Leaf& leaf) const override {
    if (!orthogonal(parameter)) return rest_->next_slots(parameter, rest_leaf(leaf));
    const Values& s = leaf.scalars;
    return {s[0] * leaf.slots[0] + s[1] * leaf.gradient};
  }

  Value step(const Parameter& parameter, const Leaf& leaf, const Values& next) const override {
    if (!orthogonal(parameter)) return rest_->step(parameter, rest_leaf(leaf), next);
    const Values& s = leaf.scalars;
    const Dims order = matrix_order(parameter.type);
    Value x = ops::transpose(s[0] * next[0] / s[3] + s[1] * leaf.gradient / s[2], order);
    x = x / (ops::sqrt(ops::reduce_sum(x * x, {-2, -1}, true)) + s[4]);
    for (int64_t i = 0; i < c_.steps; ++i) x = newton_schulz(x);
    const double out = static_cast<double>(x.dims()[order.size() - 2]);
    const double in = static_cast<double>(x.dims()[order.size() - 1]);
    x = ops::transpose(std::sqrt(std::max(1.0, out / std::max(1.0, in))) * x, inverse(order));
    return decoupled(leaf, x);
  }

 private:
  static AdamWConfig rest_of(const MuonConfig& config) {
    AdamWConfig rest = config.adamw;
    rest.nesterov = rest.nesterov || config.optax_rest;
    return rest;
  }

  Leaf rest_leaf(const Leaf& leaf) const {
    Leaf rest = leaf;
    rest.scalars.erase(rest.scalars.begin(),
                       rest.scalars.begin() + static_cast<std::ptrdiff_t>(kOwnScalars));
    if (c_.optax_rest) rest.weight_decay = ops::full_like(leaf.weight_decay, 0);
    return rest;
  }

  MuonConfig c_;
  std::shared_ptr<const Optimizer> rest_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_muon(const MuonConfig& config) {
  return std::make_shared<Muon>(config);
}

}  // namespace strata::optim
