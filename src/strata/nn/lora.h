// Low-rank adapters (LoRA, Hu et al. 2021): y = x Wᵀ + s (x Aᵀ) Bᵀ, where A (rank, in) and B (out,
// rank) are trained and W is not.
#pragma once

#include <string>
#include <vector>

#include "strata/nn/model_transform.h"

namespace strata::nn {

struct LoraConfig {
  int64_t rank = 8;
  double alpha = 8;
  // The scale s is alpha / rank, or alpha / √rank (rsLoRA, Kalajdzievski 2023), which keeps the
  // adapter's share of the output alike for all ranks.
  bool rslora = false;
  std::vector<std::string> targets;  // globs of linear maps' paths: "*.q_proj"

  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

// One adapted weight: what W + scale · B A is made of, by unstacked names. Pure data.
struct LowRankUpdate {
  std::string weight, a, b;
  double scale = 0;
};

// Declares `lora_A.weight` and `lora_B.weight` on each target, named as Hugging Face's PEFT names
// them. B starts as zeros, so that the model computes what it did before; A is uniform in ±1/√in
// (Kaiming's rule with a = √5, PEFT's choice) from a key of the map's path and layer.
class Lora : public ModelTransform {
 public:
  static constexpr const char* kKind = "lora";

  // Throws invalid_argument (nn.lora_config) unless 1 <= rank <= 65536 and alpha is finite and > 0.
  explicit Lora(LoraConfig config);
  static Lora from_json(const Json& json, const std::string& where);

  const LoraConfig& config() const { return config_; }
  double scale() const;
  Json to_json() const override;
  void apply(Module& root, const std::vector<sharding::Tie>& ties) const override;

 private:
  LoraConfig config_;
};

// Every weight below `root` that has an adapter.
std::vector<LowRankUpdate> low_rank_updates(const Module& root);

}  // namespace strata::nn
