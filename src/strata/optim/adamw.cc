#include "strata/optim/adamw.h"

#include <cmath>

#include "strata/ops/arithmetic.h"
#include "strata/ops/elementwise.h"

namespace strata::optim {
namespace {

using ir::Value;
using ir::Values;

class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWConfig& config) : c_(config) {
    check_beta(name(), "b1", c_.b1);
    check_beta(name(), "b2", c_.b2);
    // Where eps is 0 in float32, a weight that never had a gradient is updated by 0 / 0.
    check_divisor(name(), "eps", c_.eps);
    check_not_negative(name(), "eps_root", c_.eps_root);
    check_not_negative(name(), "weight_decay", c_.weight_decay);
    check_slot_dtype(name(), "m_dtype", c_.m_dtype);
  }

  std::string_view name() const override { return "adamw"; }
  double weight_decay() const override { return c_.weight_decay; }

  std::vector<Role> roles(const Parameter&) const override {
    return {{.name = "adam.m", .dtype = c_.m_dtype}, {.name = "adam.v"}};
  }

  std::vector<NamedScalar> scalars(int64_t count) const override {
    double t = static_cast<double>(count) + 1;
    std::vector<NamedScalar> rows = {
        {"b1", c_.b1},
        {"one_minus_b1", 1 - c_.b1},
        {"b2", c_.b2},
        {"one_minus_b2", 1 - c_.b2},
        {"eps", c_.eps},
        {"eps_root", c_.eps_root},
        {"c1", 1 - std::pow(c_.b1, t)},
        {"c2", 1 - std::pow(c_.b2, t)},
    };
    if (c_.nesterov) rows.push_back({"c1_next", 1 - std::pow(c_.b1, t + 1)});
    return rows;
  }

  Values next_slots(const Parameter&, const Leaf& leaf) const override {
    Named s(leaf.scalars);
    Value g = leaf.gradient;
    return {s.b1 * leaf.slots[0] + s.one_minus_b1 * g,
            s.b2 * leaf.slots[1] + s.one_minus_b2 * (g * g)};
  }

  Value step(const Parameter&, const Leaf& leaf, const Values& next) const override {
    Named s(leaf.scalars);
    Value m = c_.nesterov ? s.b1 * next[0] / leaf.scalars[8] + s.one_minus_b1 * leaf.gradient / s.c1
                          : next[0] / s.c1;
    Value v = next[1] / s.c2;
    return decoupled(leaf, m / (ops::sqrt(v + s.eps_root) + s.eps));
  }

 private:
  // The rows of `scalars`, in their order.
  struct Named {
    explicit Named(const Values& s)
        : b1(s[0]),
          one_minus_b1(s[1]),
          b2(s[2]),
          one_minus_b2(s[3]),
          eps(s[4]),
          eps_root(s[5]),
          c1(s[6]),
          c2(s[7]) {}
    Value b1, one_minus_b1, b2, one_minus_b2, eps, eps_root, c1, c2;
  };

  AdamWConfig c_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_adamw(const AdamWConfig& config) {
  return std::make_shared<AdamW>(config);
}

}  // namespace strata::optim
