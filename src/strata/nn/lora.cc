#include "strata/nn/lora.h"

#include <fmt/format.h>

#include <cmath>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/random.h"

namespace strata::nn {
namespace {

using ir::Value;
using sharding::Dim;

// One of the two factors, a kernel (out, in).
class LoraFactor : public Module {
 public:
  LoraFactor(Module* parent, std::string name, Dim out, Dim in)
      : Module(parent, std::move(name)),
        weight(this, "weight", {DType::f32, {std::move(out), std::move(in)}}) {}
  std::string describe() const override { return "LoraFactor"; }

  Adapter weight;
};

class LoraPart : public LinearPart {
 public:
  LoraPart(Linear& linear, int64_t rank, double scale)
      : rank_(rank),
        scale_(scale),
        // The rank has no logical name: it is small, and every device holds all of it.
        a_(&linear, "lora_A", {.size = rank},
           {.size = linear.dims().in, .name = linear.dims().in_name}),
        b_(&linear, "lora_B", {.size = linear.dims().out, .name = linear.dims().out_name},
           {.size = rank}) {}

  std::string describe() const override {
    return fmt::format("Lora(rank={}, scale={})", rank_, scale_);
  }

  Value added(const Context& context, Value x) const override {
    auto kernel = [&](const LoraFactor& f) { return ops::convert(context(f.weight), x.dtype()); };
    return project(project(x, kernel(a_)), kernel(b_)) * scale_;
  }

  Value added_kernel(const Context& context) const override {
    Value a = ops::convert(context(a_.weight), DType::f32);
    Value b = ops::convert(context(b_.weight), DType::f32);
    return ops::dot_general(b, a, {.lhs_contract = {1}, .rhs_contract = {0}}) * scale_;
  }

  // 2u - 1 is exact, so that no compiler's fusing of multiply and add changes a bit.
  std::vector<InitialValue> initial_values(const Context& context, Value) const override {
    ir::Function& f = context.function();
    const Dims a = a_.weight.type().sizes(), b = b_.weight.type().sizes();
    Value unit = ops::uniform(context.key("init", a_), DType::f32, a) * 2.0 - 1.0;
    double bound = 1 / std::sqrt(static_cast<double>(a[1]));
    return {{&a_.weight, unit * bound}, {&b_.weight, ops::full(f, DType::f32, b, 0)}};
  }

  LowRankUpdate update(const std::string& weight) const {
    return {weight, a_.weight.path(), b_.weight.path(), scale_};
  }

 private:
  int64_t rank_;
  double scale_;
  LoraFactor a_, b_;
};

void collect(const Module& module, std::vector<LowRankUpdate>& out) {
  if (const auto* linear = dynamic_cast<const Linear*>(&module)) {
    for (const auto& part : linear->parts()) {
      const auto* lora = dynamic_cast<const LoraPart*>(part.get());
      if (lora != nullptr) out.push_back(lora->update(linear->path() + ".weight"));
    }
  }
  for (const Module* child : module.children()) collect(*child, out);
}

}  // namespace

Lora::Lora(LoraConfig config) : config_(std::move(config)) {
  bool good = config_.rank >= 1 && config_.rank <= 65536 && std::isfinite(config_.alpha) &&
              config_.alpha > 0;
  require(good, {.id = "nn.lora_config",
                 .where = "LoRA",
                 .expected = "a rank from 1 to 65536 and a finite alpha > 0",
                 .got = fmt::format("rank {}, alpha {}", config_.rank, config_.alpha)});
}

Lora Lora::from_json(const Json& json, const std::string& where) {
  check_keys(json, {"kind", "rank", "alpha", "rslora", "targets"}, where);
  LoraConfig c;
  c.rank = get_int(json, "rank", where);
  c.alpha = get_double(json, "alpha", where);
  c.rslora = get_bool_or(json, "rslora", false, where);
  c.targets = read_targets(json, where);
  return Lora(std::move(c));
}

double Lora::scale() const {
  auto rank = static_cast<double>(config_.rank);
  return config_.alpha / (config_.rslora ? std::sqrt(rank) : rank);
}

Json Lora::to_json() const {
  return {{"kind", kKind},
          {"rank", config_.rank},
          {"alpha", config_.alpha},
          {"rslora", config_.rslora},
          {"targets", config_.targets}};
}

void Lora::apply(Module& root, const std::vector<sharding::Tie>& ties) const {
  std::vector<Linear*> linears = find_linears(root, config_.targets, ties);
  check_new_fields(linears, {"lora_A", "lora_B"});
  for (Linear* linear : linears) {
    linear->add(std::make_unique<LoraPart>(*linear, config_.rank, scale()));
  }
}

std::vector<LowRankUpdate> low_rank_updates(const Module& root) {
  std::vector<LowRankUpdate> out;
  collect(root, out);
  return out;
}

}  // namespace strata::nn
