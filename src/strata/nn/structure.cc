#include "strata/nn/structure.h"

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/nn/layer_stack.h"

namespace strata::nn {

namespace {

bool has_stack(const Module& module) {
  if (dynamic_cast<const LayerStack*>(&module) != nullptr) return true;
  for (const Module* child : module.children()) {
    if (has_stack(*child)) return true;
  }
  return false;
}

}  // namespace

Structure::Structure(const Module& root, const ScanOptions& options,
                     std::vector<sharding::Tie> ties)
    : options_(options) {
  require(options.mode != ScanMode::force || has_stack(root),
          {.id = "nn.no_stack",
           .where = root.describe(),
           .expected = "a LayerStack to scan (scan = force)",
           .got = "none: its layers are fields of their own, or it loops inside itself",
           .cure = "Add the layers to a LayerStack, or use scan = auto",
           .code = Code::failed_precondition});
  add_module(root);
  manifest_ = sharding::Manifest(slots_, std::move(ties), plans_);
}

const sharding::LayerPlan& Structure::plan(const LayerStack& stack) const {
  auto it = plan_of_.find(&stack);
  invariant(it != plan_of_.end(), "nn.foreign_stack", "a stack of the frozen model");
  return plans_[it->second];
}

void Structure::add_module(const Module& module) {
  if (const auto* stack = dynamic_cast<const LayerStack*>(&module)) return add_stack(*stack);
  for (const Param* p : module.params()) {
    slots_.push_back({p->path(), p->kind(), p->type()});
    members_.push_back({p});
  }
  for (const Module* child : module.children()) add_module(*child);
}

void Structure::add_stack(const LayerStack& stack) {
  if (stack.size() == 0) return;
  StackPlan planned = plan_layers(stack, options_.mode);
  reasons_.insert(reasons_.end(), planned.reasons.begin(), planned.reasons.end());
  plan_of_[&stack] = plans_.size();
  plans_.push_back(planned.plan);
  for (size_t r = 0; r < planned.plan.runs.size(); ++r) {
    add_run(stack, planned.plan, static_cast<int64_t>(r));
  }
}

void Structure::add_run(const LayerStack& stack, const sharding::LayerPlan& plan, int64_t run) {
  const sharding::LayerRun& r = plan.runs[static_cast<size_t>(run)];
  if (!r.scanned) {
    for (int64_t i = r.first; i < r.first + r.layers(); ++i) {
      add_module(stack.layer(static_cast<size_t>(i)));
    }
    return;
  }
  for (int64_t slot = 0; slot < r.cycle; ++slot) {
    const Layer& first = stack.layer(static_cast<size_t>(r.first + slot));
    std::vector<const Param*> leaves = first.all_params();
    for (size_t p = 0; p < leaves.size(); ++p) {
      std::vector<const Param*> members;
      for (int64_t k = 0; k < r.repeats; ++k) {
        size_t layer = static_cast<size_t>(plan.layer_at({run, k, slot}));
        members.push_back(stack.layer(layer).all_params()[p]);
      }
      std::string leaf = leaves[p]->path().substr(first.path().size() + 1);
      sharding::Dim dim{r.repeats, sharding::Role::layer, "layers", {}};
      std::string path = plan.stacked_name(run, slot, leaf);
      slots_.push_back({path, leaves[p]->kind(),
                        insert_layer_dim(leaves[p]->type(), options_.param_axis, dim, path)});
      members_.push_back(std::move(members));
    }
  }
}

}  // namespace strata::nn
