// CausalLm: what trainer, sampler and scorer know about a model of any family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/nn/context.h"
#include "strata/nn/module.h"
#include "strata/nn/token_context.h"

namespace strata::models {

// Facts that every family has.
struct LmConfig {
  std::string model_type;
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  bool tied = false;  // the head is the embedding table
};

// B rows of T new tokens. Padding is a segment of 0.
struct LmInput {
  ir::Value ids;        // (B, T) i32
  ir::Value positions;  // (B, T) i32
  ir::Value segments;   // (B, T) i32: equal numbers see each other causally, 0 is padding
  ir::Value parents = {};  // (B, T) i32: a second segment that a token sees; see segment_mask
  // Cached keys and values of P earlier tokens a row, (layers, B, P, kv_heads, head_dim) in the
  // compute type, and which of them exist, (B, P) pred. Null without a cache.
  ir::Value past_k = {}, past_v = {}, past_valid = {};
  bool want_cache = false;  // return the new tokens' keys and values
};

struct LmOutput {
  ir::Value hidden;  // (B, T, hidden) after the final norm
  ir::Value k, v;    // (layers, B, T, kv_heads, head_dim), or null
};

class CausalLm : public nn::Module {
 public:
  explicit CausalLm(LmConfig config) : Module(nullptr, ""), config_(std::move(config)) {}
  const LmConfig& config() const { return config_; }

  virtual LmOutput forward(const nn::Context& context, const LmInput& input) const = 0;
  // The output head, (vocabulary, hidden).
  virtual ir::Value head(const nn::Context& context) const = 0;
  virtual std::vector<sharding::Tie> ties() const = 0;
  // Tensors of a checkpoint that are none of the model's and are skipped on loading.
  virtual std::vector<std::string> ignorable() const = 0;

 private:
  LmConfig config_;
};

}  // namespace strata::models
