// Modules: what a model is made of. A module declares its parameters and submodules as typed
// fields; declaring a field registers it under its parent, so that names, manifests and programs
// all derive from one tree. Building is shape-only: no device, no memory.
//
//   class Mlp : public Module {
//     Mlp(Module* parent, std::string name, …) : Module(parent, name), up_(this, "up_proj", …) {}
//     Linear up_;
//   };
//
// Paths are the names of Hugging Face checkpoints: "model.layers.3.mlp.up_proj.weight".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/sharding/manifest.h"

namespace strata::nn {

class Context;
class Module;
class Param;

// The value that a field has in a model whose files hold none.
struct InitialValue {
  const Param* field = nullptr;
  ir::Value value;
};

// What layers of a stack do about a buffer: each has its own values, or all have the same.
enum class Share { per_layer, shared };

// A declared tensor of the model. Its address is its identity: it neither copies nor moves.
class Param {
 public:
  // Registers itself with `owner`, which must outlive it.
  Param(Module* owner, std::string name, sharding::ParamType type);
  // A second name of `target`, which must outlive it: one slot, one gradient (the sum over its
  // uses), one entry in a checkpoint.
  Param(Module* owner, std::string name, const Param& target);
  Param(const Param&) = delete;
  Param& operator=(const Param&) = delete;

  const std::string& name() const { return name_; }
  const sharding::ParamType& type() const { return type_; }
  sharding::Kind kind() const { return kind_; }
  Share share() const { return share_; }
  const Module& owner() const { return *owner_; }
  std::string path() const;
  // Itself, or the parameter that it is a second name of.
  const Param& resolved() const { return target_ == nullptr ? *this : *target_; }

 protected:
  Param(Module* owner, std::string name, sharding::ParamType type, sharding::Kind kind,
        Share share);

 private:
  const Module* owner_;
  std::string name_;
  sharding::ParamType type_;
  sharding::Kind kind_ = sharding::Kind::param;
  Share share_ = Share::per_layer;
  const Param* target_ = nullptr;
};

// A declared tensor that is never trained. In a stack, buffers per layer are stacked like
// parameters and must have one shape in layers that are otherwise alike; a shared one (of equal
// name and type) has a single slot, which loops see whole, whatever its dims.
class Buffer : public Param {
 public:
  Buffer(Module* owner, std::string name, sharding::ParamType type, Share share);
};

// A declared tensor that a model transform adds to be trained while the parameters stay as they
// are. A kind of its own: nothing takes it for a parameter.
class Adapter : public Param {
 public:
  Adapter(Module* owner, std::string name, sharding::ParamType type);
};

// A declared intermediate: a router's loss, an activation to look at. A module emits each of its
// taps once a call (Context::tap). Taps cost nothing until someone wants them as outputs (TapSink)
// or names them to be kept for the reverse sweep (remat "names:a,b" means taps of these names).
class Tap {
 public:
  Tap(Module* owner, std::string name);
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  const std::string& name() const { return name_; }
  const Module& owner() const { return *owner_; }

 private:
  const Module* owner_;
  std::string name_;
};

class Module {
 public:
  // `parent` is null for the root, whose name is empty. Throws already_exists when the parent has a
  // member of this name, failed_precondition when the model is frozen.
  Module(Module* parent, std::string name);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  // Leaves its parent, which must still live: a module whose construction fails leaves no trace.
  virtual ~Module();

  const std::string& name() const { return name_; }
  std::string path() const;
  const std::vector<const Param*>& params() const { return params_; }
  const std::vector<const Tap*>& taps() const { return taps_; }
  std::vector<const Module*> children() const { return {children_.begin(), children_.end()}; }
  // For model transforms, which may change what a built model declares.
  const std::vector<Module*>& children() { return children_; }
  const Module* parent() const { return parent_; }

  // Class and configuration as text, without submodules: what two modules must share to run as one
  // scanned body. "RmsNorm(eps=1e-06)".
  virtual std::string describe() const = 0;

  // What the fields that model transforms gave this very module start from. Their values are traced
  // from those of the parameters and from random keys.
  virtual std::vector<InitialValue> initial_values(const Context& context) const;

  // Own parameters, then those of the submodules, in order of declaration.
  std::vector<const Param*> all_params() const;

  // Whether a structure has been made of the model.
  bool frozen() const;
  // Ends the build phase of the whole model: from now on declaring a member is an error. A
  // Structure does this, as what is declared later would be in no manifest.
  void freeze() const;

 private:
  friend class Param;
  friend class Tap;
  void claim(std::string_view name) const;

  Module* parent_;
  std::string name_;
  std::vector<const Param*> params_;
  std::vector<const Tap*> taps_;
  std::vector<Module*> children_;
  mutable bool frozen_ = false;  // of a root
};

}  // namespace strata::nn
