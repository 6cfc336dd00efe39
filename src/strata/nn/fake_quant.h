// Fake-quantised linear maps: the kernel is rounded to a grid of few values in every call, while
// training goes on in float (straight-through gradient: that of the kernel as it is).
#pragma once

#include <string>
#include <vector>

#include "strata/nn/model_transform.h"

namespace strata::nn {

// The grid of values: s · {-127 … 127}, or s times the numbers of OCP E4M3 (up to 448).
enum class QuantFormat : uint8_t { int8, fp8_e4m3 };

// "int8", "fp8_e4m3".
std::string_view name_of(QuantFormat format);
// Throws invalid_argument (nn.quant_format) listing the formats.
QuantFormat parse_quant_format(std::string_view name);

struct FakeQuantConfig {
  QuantFormat format = QuantFormat::int8;
  // One scale an output channel, or (false) one for the whole kernel.
  bool per_channel = true;
  std::vector<std::string> targets;  // globs of linear maps' paths: "*.down_proj"

  friend bool operator==(const FakeQuantConfig&, const FakeQuantConfig&) = default;
};

// Declares the buffer `weight_scale` on each target: (out) f32, or a scalar. It starts as the
// largest magnitude of the channel (or kernel) over the largest number of the format, 1 where all
// are zero, and stays as it is: whoever trains on loads it from the checkpoint.
class FakeQuant : public ModelTransform {
 public:
  static constexpr const char* kKind = "fake_quant";

  explicit FakeQuant(FakeQuantConfig config) : config_(std::move(config)) {}
  static FakeQuant from_json(const Json& json, const std::string& where);

  const FakeQuantConfig& config() const { return config_; }
  Json to_json() const override;
  void apply(Module& root, const std::vector<sharding::Tie>& ties) const override;

 private:
  FakeQuantConfig config_;
};

}  // namespace strata::nn
