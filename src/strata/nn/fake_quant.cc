#include "strata/nn/fake_quant.h"

#include <fmt/format.h>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"

namespace strata::nn {
namespace {

using ir::Value;

double largest(QuantFormat format) { return format == QuantFormat::int8 ? 127 : 448; }

sharding::ParamType scale_type(const LinearDims& dims, bool per_channel) {
  if (!per_channel) return {DType::f32, {}};
  return {DType::f32, {{.size = dims.out, .name = dims.out_name}}};
}

class FakeQuantPart : public LinearPart {
 public:
  FakeQuantPart(Linear& linear, const FakeQuantConfig& config)
      : format_(config.format),
        per_channel_(config.per_channel),
        scale_(&linear, "weight_scale", scale_type(linear.dims(), per_channel_), Share::per_layer) {
  }

  std::string describe() const override {
    return fmt::format("FakeQuant({}{})", name_of(format_), per_channel_ ? ", per channel" : "");
  }

  Value kernel(const Context& context, Value weight) const override {
    Value wide = ops::convert(weight, DType::f32);
    Value scale = ops::convert(context(scale_), DType::f32);
    scale = ops::broadcast_in_dim(scale, wide.dims(), per_channel_ ? Dims{0} : Dims{});
    Value edge = ops::full_like(wide, largest(format_));
    Value steps = ops::clamp(ops::negate(edge), wide / scale, edge);
    Value rounded = format_ == QuantFormat::int8
                        ? ops::round_nearest_even(steps)
                        : ops::convert(ops::convert(steps, DType::f8e4m3fn), DType::f32);
    // w + (q - w) would round; adding w - w, which is zero, keeps q and the gradient of w.
    Value through = wide - ops::stop_gradient(wide);
    return ops::convert(ops::stop_gradient(rounded * scale) + through, weight.dtype());
  }

  std::vector<InitialValue> initial_values(const Context&, Value weight) const override {
    Value size = ops::abs(ops::convert(weight, DType::f32));
    Value most = ops::reduce_max(size, per_channel_ ? Dims{1} : Dims{0, 1});
    Value scale = most / ops::full_like(most, largest(format_));
    Value some = ops::compare(most, ops::full_like(most, 0), "GT");
    return {{&scale_, ops::select(some, scale, ops::full_like(most, 1))}};
  }

 private:
  QuantFormat format_;
  bool per_channel_;
  Buffer scale_;
};

}  // namespace

std::string_view name_of(QuantFormat format) {
  return format == QuantFormat::int8 ? "int8" : "fp8_e4m3";
}

QuantFormat parse_quant_format(std::string_view name) {
  for (QuantFormat f : {QuantFormat::int8, QuantFormat::fp8_e4m3}) {
    if (name == name_of(f)) return f;
  }
  fail({.id = "nn.quant_format",
        .where = "fake quantisation",
        .expected = "int8 or fp8_e4m3",
        .got = "'" + std::string(name) + "'"});
}

FakeQuant FakeQuant::from_json(const Json& json, const std::string& where) {
  check_keys(json, {"kind", "format", "per_channel", "targets"}, where);
  FakeQuantConfig c;
  c.format = parse_quant_format(get_string(json, "format", where));
  c.per_channel = get_bool_or(json, "per_channel", true, where);
  c.targets = read_targets(json, where);
  return FakeQuant(std::move(c));
}

Json FakeQuant::to_json() const {
  return {{"kind", kKind},
          {"format", name_of(config_.format)},
          {"per_channel", config_.per_channel},
          {"targets", config_.targets}};
}

void FakeQuant::apply(Module& root, const std::vector<sharding::Tie>& ties) const {
  std::vector<Linear*> linears = find_linears(root, config_.targets, ties);
  check_new_fields(linears, {"weight_scale"});
  for (Linear* linear : linears) linear->add(std::make_unique<FakeQuantPart>(*linear, config_));
}

}  // namespace strata::nn
