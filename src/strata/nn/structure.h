// Structure: a model frozen for tracing. After construction the layers of every LayerStack are
// planned (scanned or not) and the parameters become the ordered slots of a Manifest; programs,
// checkpoints and name maps derive from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "strata/nn/module.h"
#include "strata/nn/scan_planner.h"
#include "strata/sharding/manifest.h"

namespace strata::nn {

class LayerStack;

// Immutable once made. Refers to the model's parameters, so the model must outlive it.
class Structure {
 public:
  // Plans every stack below `root`. `ties` are the model's (alias → owner). Throws
  // failed_precondition with the reasons when the mode is `force` and there is no stack.
  Structure(const Module& root, const ScanOptions& options, std::vector<sharding::Tie> ties = {});

  const sharding::Manifest& manifest() const { return manifest_; }
  const ScanOptions& options() const { return options_; }
  // The parameters that slot `i` holds: one, or one per layer in the order of its layer dim.
  const std::vector<const Param*>& members(size_t slot) const { return members_[slot]; }
  const sharding::LayerPlan& plan(const LayerStack& stack) const;
  // Why neighbouring layers did not merge, a line each; empty when everything did.
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  void add_module(const Module& module);
  void add_stack(const LayerStack& stack);
  void add_run(const LayerStack& stack, const sharding::LayerPlan& plan, int64_t run);

  ScanOptions options_;
  std::vector<sharding::Slot> slots_;
  std::vector<sharding::LayerPlan> plans_;
  std::map<const LayerStack*, size_t> plan_of_;
  std::vector<std::vector<const Param*>> members_;
  std::vector<std::string> reasons_;
  sharding::Manifest manifest_;
};

}  // namespace strata::nn
