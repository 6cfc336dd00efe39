// Structure: a model frozen for tracing. After construction the layers of every LayerStack are
// planned (scanned or not) and the parameters become the ordered slots of a Manifest; programs,
// checkpoints and name maps derive from it.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "strata/nn/module.h"
#include "strata/nn/scan_planner.h"
#include "strata/sharding/manifest.h"
#include "strata/sharding/placement.h"

namespace strata::nn {

class LayerStack;

// Immutable once placed (or made, on one device). Refers to the model's parameters, so the model
// must outlive it. The first structure of a model freezes it: nothing can be declared any more.
class Structure {
 public:
  // Plans every stack below `root` that lies in no other stack; stacks inside of layers run as they
  // are built. `ties` are names that the model gives its parameters beside those it declares
  // (alias → owner). Throws failed_precondition when the mode is `force` and there is no stack, or
  // when a parameter that a plan stacks has another name outside of its layer (naming both);
  // not_found when remat names a tap that no layer has. What throws leaves the model as it was.
  Structure(const Module& root, const ScanOptions& options, std::vector<sharding::Tie> ties = {});

  // Lays the model over a mesh: from here on the manifest's dims carry their mesh axes, and
  // programs traced from this structure run on all its devices. `family` is the model's own rules.
  // Throws as sharding::place, with nothing changed.
  void place(const sharding::PlacementOptions& options, const std::vector<sharding::Rule>& family);
  // Before `place`: a mesh of one device.
  const sharding::Placement& placement() const { return placement_; }
  const sharding::Mesh& mesh() const { return placement_.mesh; }

  const sharding::Manifest& manifest() const { return manifest_; }
  const ScanOptions& options() const { return options_; }
  // The parameters that slot `i` holds: one, or one per layer in the order of its layer dim. The
  // second names of a parameter are none of its members.
  const std::vector<const Param*>& members(size_t slot) const { return members_[slot]; }
  // Who holds the values of `param`: itself, or the owner of what it is a name of.
  const Param& owner_of(const Param& param) const;
  // The parameters below `layer` that it shares with no other module, in order of declaration.
  std::vector<const Param*> own_params(const Module& layer) const;
  // Whether `param` has a slot (or a place in a stacked one) of its own.
  bool is_owner(const Param& param) const { return slot_of_.contains(&param); }
  // How the values of `param` lie on the mesh when one layer has them: its dims with the mesh axes
  // that its slot gives them.
  sharding::ParamType layout_of(const Param& param) const;
  // The type of the slot that holds `param`: with a layer dim where it is stacked.
  const sharding::ParamType& stored_type(const Param& param) const;
  const sharding::LayerPlan& plan(const LayerStack& stack) const;
  // The inner loops of a stack's runs (StackPlan::neighbours).
  const std::vector<std::vector<int64_t>>& neighbours(const LayerStack& stack) const;
  // Why neighbouring layers did not merge, a line each; empty when everything did.
  const std::vector<std::string>& reasons() const { return reasons_; }
  // Names of the taps of the model, each once, with `*` for the layer: "model.layers.*.mlp.hidden".
  const std::vector<std::string>& taps() const { return taps_; }

 private:
  void add_module(const Module& module);
  void add_stack(const LayerStack& stack);
  void add_run(const LayerStack& stack, const sharding::LayerPlan& plan, int64_t run);
  void add_own(const Param& param);
  void add_taps(const Module& module, bool in_layer);
  void unroll_inner(const Module& module);
  void check_remat() const;
  std::vector<sharding::Tie> all_ties(const Module& root, std::vector<sharding::Tie> given) const;
  void tie(const Param& alias, std::vector<sharding::Tie>& ties) const;
  bool is_stacked(const Param& param) const;

  ScanOptions options_;
  std::vector<sharding::Slot> slots_;
  std::vector<std::vector<const Param*>> members_;
  std::vector<sharding::LayerPlan> plans_;
  std::unordered_map<const LayerStack*, sharding::LayerPlan> plan_of_;
  std::unordered_map<const LayerStack*, std::vector<std::vector<int64_t>>> neighbours_of_;
  std::unordered_map<const Param*, size_t> slot_of_;
  std::unordered_map<const Param*, const Param*> shared_;  // shared buffers → owner
  std::unordered_set<const Param*> unstacked_;             // owners of what layers share
  std::vector<std::string> reasons_;
  std::vector<std::string> taps_;
  std::vector<std::string> layer_taps_;  // short names of the taps of layers
  sharding::Manifest manifest_;
  sharding::Placement placement_;
};

}  // namespace strata::nn
