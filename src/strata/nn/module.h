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

#include "strata/sharding/manifest.h"

namespace strata::nn {

class Module;

// A declared tensor of the model. Its address is its identity: it neither copies nor moves.
class Param {
 public:
  // Registers itself with `owner`, which must outlive it.
  Param(Module* owner, std::string name, sharding::ParamType type,
        sharding::Kind kind = sharding::Kind::param);
  Param(const Param&) = delete;
  Param& operator=(const Param&) = delete;

  const std::string& name() const { return name_; }
  const sharding::ParamType& type() const { return type_; }
  sharding::Kind kind() const { return kind_; }
  const Module& owner() const { return *owner_; }
  std::string path() const;

 private:
  const Module* owner_;
  std::string name_;
  sharding::ParamType type_;
  sharding::Kind kind_;
};

class Module {
 public:
  // `parent` is null for the root, whose name is empty. Throws already_exists when the parent has a
  // member of this name.
  Module(Module* parent, std::string name);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  // Leaves its parent, which must still live: a module whose construction fails leaves no trace.
  virtual ~Module();

  const std::string& name() const { return name_; }
  std::string path() const;
  const std::vector<const Param*>& params() const { return params_; }
  const std::vector<const Module*>& children() const { return children_; }

  // Class and configuration as text, without submodules: what two modules must share to run as one
  // scanned body. "RmsNorm(eps=1e-06)".
  virtual std::string describe() const = 0;

  // Own parameters, then those of the submodules, in order of declaration.
  std::vector<const Param*> all_params() const;

 private:
  friend class Param;
  void claim(std::string_view name) const;

  Module* parent_;
  std::string name_;
  std::vector<const Param*> params_;
  std::vector<const Module*> children_;
};

}  // namespace strata::nn
