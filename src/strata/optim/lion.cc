#include "strata/optim/lion.h"

#include "strata/ops/arithmetic.h"
#include "strata/ops/elementwise.h"

namespace strata::optim {
namespace {

using ir::Value;
using ir::Values;

class Lion : public Optimizer {
 public:
  explicit Lion(const LionConfig& config) : c_(config) {
    check_beta(name(), "b1", c_.b1);
    check_beta(name(), "b2", c_.b2);
    check_not_negative(name(), "weight_decay", c_.weight_decay);
    check_slot_dtype(name(), "m_dtype", c_.m_dtype);
  }

  std::string_view name() const override { return "lion"; }
  double weight_decay() const override { return c_.weight_decay; }

  std::vector<Role> roles(const Parameter&) const override {
    return {{.name = "lion.m", .dtype = c_.m_dtype}};
  }

  std::vector<NamedScalar> scalars(int64_t) const override {
    return {{"b1", c_.b1}, {"one_minus_b1", 1 - c_.b1}, {"b2", c_.b2}, {"one_minus_b2", 1 - c_.b2}};
  }

  Values next_slots(const Parameter&, const Leaf& leaf) const override {
    return {leaf.scalars[3] * leaf.gradient + leaf.scalars[2] * leaf.slots[0]};
  }

  Value step(const Parameter&, const Leaf& leaf, const Values&) const override {
    const Values& s = leaf.scalars;
    return decoupled(leaf, ops::sign(s[1] * leaf.gradient + s[0] * leaf.slots[0]));
  }

  bool step_reads_old_slots() const override { return true; }

 private:
  LionConfig c_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_lion(const LionConfig& config) {
  return std::make_shared<Lion>(config);
}

}  // namespace strata::optim
