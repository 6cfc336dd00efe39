// CausalLm: what trainer, sampler and scorer know about a model of any family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/json.h"
#include "strata/nn/context.h"
#include "strata/nn/model_transform.h"
#include "strata/nn/module.h"
#include "strata/nn/token_context.h"
#include "strata/sharding/placement.h"

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
  ir::Value ids;           // (B, T) i32
  ir::Value positions;     // (B, T) i32
  ir::Value segments;      // (B, T) i32: equal numbers see each other causally, 0 is padding
  ir::Value parents = {};  // (B, T) i32: a second segment that a token sees; see segment_mask
  // The state of earlier tokens, state[i] being layer i's values of the types that `state_types`
  // says; empty when there are none. Then segments and parents are not read: rows are not packed,
  // and a token sees what its row holds before it.
  std::vector<ir::Values> state = {};
  // With a state, (B) i32: how many tokens each row's state holds. A row without room for its new
  // tokens writes nothing; a lone row must have room.
  ir::Value state_length = {};
  bool want_state = false;  // return the state after the new tokens
};

struct LmOutput {
  ir::Value hidden;  // (B, T, hidden) after the final norm
  // With want_state: the given state with the new tokens added, else that of the new tokens alone
  // (with room for just those).
  std::vector<ir::Values> state = {};
};

// Types of one layer's state. Dims that a mesh may share out have their logical names.
using StateTypes = std::vector<sharding::ParamType>;

class CausalLm : public nn::Module {
 public:
  explicit CausalLm(LmConfig config) : Module(nullptr, ""), config_(std::move(config)) {}
  const LmConfig& config() const { return config_; }

  // Changes the built model; throws as nn::ModelTransform::apply.
  void apply(const nn::ModelTransform& transform);
  // The transforms that were applied, in order, as nn::transform_from_json reads them.
  const Json& transforms() const { return transforms_; }

  virtual LmOutput forward(const nn::Context& context, const LmInput& input) const = 0;
  // What each layer keeps of a row's earlier tokens, in dtype `compute`, for `rows` rows with room
  // for `length` tokens; dim 0 is the row. Attention keeps keys and values, (rows, kv_heads,
  // length, head_dim).
  virtual std::vector<StateTypes> state_types(int64_t rows, int64_t length,
                                              DType compute) const = 0;
  // The output head, (vocabulary, hidden).
  virtual ir::Value head(const nn::Context& context) const = 0;
  virtual std::vector<sharding::Tie> ties() const = 0;
  // How the family's logical dims fall on the mesh axes that exist: see sharding::place.
  virtual std::vector<sharding::Rule> sharding_rules() const { return sharding::decoder_rules(); }
  // Tensors of a checkpoint that are none of the model's and are skipped on loading.
  virtual std::vector<std::string> ignorable() const = 0;

 private:
  LmConfig config_;
  Json transforms_ = Json::array();
};

}  // namespace strata::models
