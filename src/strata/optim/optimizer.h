// Optimiser: the formulas of one update, as pure traced functions of one parameter, its gradient
// and its slots. What surrounds them (groups, clipping, skipping) is update.h.
//
// Numbers that may change between updates (rate, betas, bias corrections, decay) are rank-0 f32
// inputs of the program: the host computes each in double, 1 - beta included, and rounds it once.
// So changing one compiles nothing, and no hyper-parameter ever takes a weight's element type.
//
// Adding an optimiser is one class in a file of its own. Formulas are those of docs/optimizer.md,
// which were checked against optax 0.2.8; each file names its source.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/optim/groups.h"
#include "strata/sharding/dim.h"

namespace strata::optim {

// How a slot's type follows from its parameter's: `like` it, `reduced` by some of its dims, or a
// `scalar`. Names, roles and mesh axes of the dims that stay come along, and so does the layout.
struct Derivation {
  enum class Kind { like, reduced, scalar };
  Kind kind = Kind::like;
  std::vector<int64_t> dims = {};  // reduced: positions in the parameter, ascending

  friend bool operator==(const Derivation&, const Derivation&) = default;
};

// Throws invalid_argument (optim.derivation) naming `path` when `dims` are not ascending positions
// of `type`, or one of them is a layer dim: only unstacking erases those.
sharding::ParamType derived_type(const sharding::ParamType& type, const Derivation& derivation,
                                 DType dtype, const std::string& path);

// One piece of optimiser state.
struct SlotSpec {
  enum class Initial { zero, parameter };
  std::string name;        // "adam.m/<parameter>"; its place in a checkpoint
  int64_t parameter = -1;  // position in the list of trained parameters; -1 = of the whole run
  Derivation derivation;
  sharding::ParamType type;
  Initial initial = Initial::zero;
};

// A scalar input of the update program and its value.
struct NamedScalar {
  std::string name;
  double value = 0;
};

class Optimizer {
 public:
  // A kind of slot that every parameter (for which `roles` names it) has.
  struct Role {
    std::string name;  // "adam.m"
    Derivation derivation = {};
    DType dtype = DType::f32;
  };
  // What the formulas see of one parameter. Everything is f32, whatever the slots are stored in.
  struct Leaf {
    ir::Value parameter;
    ir::Value gradient;      // of the parameter's dims: averaged and clipped
    ir::Values slots;        // in the order of `roles`
    ir::Value lr;            // rank 0: the group's rate
    ir::Value weight_decay;  // rank 0: the group's decay
    ir::Values scalars;      // rank 0, in the order of `scalars`
  };

  virtual ~Optimizer() = default;
  virtual std::string_view name() const = 0;
  // Of groups that set none of their own.
  virtual double weight_decay() const = 0;
  virtual std::vector<Role> roles(const Parameter& parameter) const = 0;
  // The scalars of the update that follows `count` finished ones. Names and order are the same for
  // every count.
  virtual std::vector<NamedScalar> scalars(int64_t count) const = 0;
  // The slots after the update.
  virtual ir::Values next_slots(const Parameter& parameter, const Leaf& leaf) const = 0;
  // What is subtracted from the parameter. `next` are the slots as they will be stored.
  virtual ir::Value step(const Parameter& parameter, const Leaf& leaf,
                         const ir::Values& next) const = 0;
  // Whether `step` reads leaf.slots and not `next` (which is then empty). It decides what is
  // computed first, so that each slot can be written in place after its last use.
  virtual bool step_reads_old_slots() const { return false; }
  // Whether elements of one layer's array enter each other's update (factored or orthogonalised),
  // while layers and experts stay apart. Zero-1 then splits the latter first: see zero.h.
  virtual bool couples_elements() const { return false; }
};

// The slots of the parameters, parameter by parameter. Throws as derived_type.
std::vector<SlotSpec> slots_of(const Optimizer& optimizer, std::span<const Parameter> parameters);

// Positions of the dims of one layer's (and one expert's) array: all but those whose role is
// `layer` or `inner_layer` and those named "experts". The latter are batch dims: means, norms and
// products are taken apart for each of their elements, so a stacked parameter does what its layers
// would.
std::vector<int64_t> array_dims(const sharding::ParamType& type);

// lr * (direction + weight_decay * parameter): decay decoupled from the gradient and taken from the
// parameter before the update (arXiv 1711.05101).
ir::Value decoupled(const Optimizer::Leaf& leaf, ir::Value direction);

// Checks of configurations. Throw invalid_argument: optim.hyper_parameter naming optimiser and
// field, unless beta is in [0, 1), the other is finite and >= 0, and a divisor is finite and a
// normal float32 > 0 (a smaller one would be 0 there); optim.slot_dtype unless the dtype is f32 or
// bf16.
void check_beta(std::string_view optimizer, std::string_view field, double value);
void check_not_negative(std::string_view optimizer, std::string_view field, double value);
void check_divisor(std::string_view optimizer, std::string_view field, double value);
void check_slot_dtype(std::string_view optimizer, std::string_view field, DType dtype);

}  // namespace strata::optim
