#include "strata/optim/sgd.h"

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"

namespace strata::optim {
namespace {

using ir::Value;
using ir::Values;

class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdConfig& config) : c_(config) {
    check_beta(name(), "momentum", c_.momentum);
    check_not_negative(name(), "weight_decay", c_.weight_decay);
    check_slot_dtype(name(), "trace_dtype", c_.trace_dtype);
    require(!c_.nesterov || c_.momentum > 0,
            {.id = "optim.sgd_nesterov",
             .where = "optimiser sgd, nesterov",
             .expected = "a momentum > 0",
             .got = "0",
             .cure = "Declined: the look-ahead is along the momentum; set one"});
  }

  std::string_view name() const override { return "sgd"; }
  double weight_decay() const override { return c_.weight_decay; }

  std::vector<Role> roles(const Parameter&) const override {
    if (c_.momentum == 0) return {};
    return {{.name = "sgd.trace", .dtype = c_.trace_dtype}};
  }

  std::vector<NamedScalar> scalars(int64_t) const override {
    if (c_.momentum == 0) return {};
    return {{"momentum", c_.momentum}};
  }

  Values next_slots(const Parameter&, const Leaf& leaf) const override {
    if (c_.momentum == 0) return {};
    return {leaf.gradient + leaf.scalars[0] * leaf.slots[0]};
  }

  Value step(const Parameter&, const Leaf& leaf, const Values& next) const override {
    if (c_.momentum == 0) return decoupled(leaf, leaf.gradient);
    return decoupled(leaf, c_.nesterov ? leaf.gradient + leaf.scalars[0] * next[0] : next[0]);
  }

 private:
  SgdConfig c_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_sgd(const SgdConfig& config) {
  return std::make_shared<Sgd>(config);
}

}  // namespace strata::optim
