// Traces one call of a stack as its plan says. Internal to LayerStack.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strata/nn/layer_stack.h"
#include "strata/sharding/layer_plan.h"

namespace strata::nn {

class StackRunner {
 public:
  // The stack has layers and belongs to the context's structure.
  StackRunner(const LayerStack& stack, const Context& context, ir::Values carry,
              const TokenContext& tokens);

  // As LayerStack::run and run_each; one of them, once.
  LayerResult run(const ir::Values& inputs);
  EachResult run_each(const std::vector<ir::Values>& inputs);

 private:
  struct LayerCall {
    ir::Values carry, outputs;
    std::vector<std::pair<const Tap*, ir::Value>> taps;

    ir::Values values() const;
    void set(const ir::Values& values);
  };
  // A tap with its pieces over the runs so far.
  struct Collected {
    std::string name;
    std::vector<int64_t> layers;
    ir::Values pieces;
  };

  static Collected& entry(std::vector<Collected>& list, const std::string& name);
  LayerCall call(int64_t layer, ir::Value index, const ir::Values& own, const ir::Values& carry,
                 const ir::Values& inputs) const;
  void unrolled(int64_t layer, const ir::Values& inputs);
  void scanned(const sharding::LayerRun& run, const std::vector<int64_t>& groups,
               const ir::Values& inputs);
  std::vector<LayerCall> neighbours(int64_t first, ir::Value index,
                                    const std::vector<ir::Values>& own, const ir::Values& carry,
                                    size_t inputs);
  ir::Values own_slices(int64_t layer);
  void collect(const std::vector<LayerCall>& slots, const sharding::LayerRun& run);
  void collect_taps(const std::vector<LayerCall>& slots, const sharding::LayerRun& run);
  void put_taps() const;
  const Layer& at(int64_t layer) const { return stack_.layer(static_cast<size_t>(layer)); }
  ir::Function& function() const { return context_.function(); }

  const LayerStack& stack_;
  const Context& context_;
  const sharding::LayerPlan& plan_;
  const ScanOptions& options_;
  ir::Values carry_;
  const TokenContext& tokens_;
  bool first_ = true;                // nothing has been collected yet
  std::vector<ir::Values> outputs_;  // [output][run]
  std::vector<Collected> taps_;
};

}  // namespace strata::nn
