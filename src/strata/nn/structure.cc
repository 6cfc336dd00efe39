#include "strata/nn/structure.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/nn/layer_stack.h"
#include "strata/nn/stack_plan.h"

namespace strata::nn {
namespace {

const LayerStack* as_stack(const Module* module) { return dynamic_cast<const LayerStack*>(module); }

bool has_stack(const Module& module) {
  if (as_stack(&module) != nullptr) return true;
  const auto& below = module.children();
  return std::any_of(below.begin(), below.end(), [](const Module* m) { return has_stack(*m); });
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

// The layer of the outermost stack that `param` lies in; null outside of stacks.
const Module* layer_of(const Param& param) {
  const Module* layer = nullptr;
  for (const Module* m = &param.owner(); m->parent() != nullptr; m = m->parent()) {
    if (as_stack(m->parent()) != nullptr) layer = m;
  }
  return layer;
}

[[noreturn]] void breaks_stack(const std::string& alias, const Param& owner,
                               const std::string& slot) {
  fail({.id = "nn.tie_breaks_stack",
        .where = alias,
        .expected = "a name of a parameter that no loop stacks, that all layers share, or that "
                    "lies in the same layer",
        .got = "a name of " + owner.path() + ", which is stacked in " + slot,
        .cure = "Use scan = off, or let a module outside of the stack own the parameter",
        .code = Code::failed_precondition});
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
  add_taps(root, false);
  check_remat();
  add_module(root);
  manifest_ = sharding::Manifest(slots_, all_ties(root, std::move(ties)), plans_);
  root.freeze();
}

const Param& Structure::owner_of(const Param& param) const {
  const Param& target = param.resolved();
  auto it = shared_.find(&target);
  return it == shared_.end() ? target : *it->second;
}

std::vector<const Param*> Structure::own_params(const Module& layer) const {
  std::vector<const Param*> own = layer.all_params();
  std::erase_if(own, [&](const Param* p) { return &owner_of(*p) != p || unstacked_.contains(p); });
  return own;
}

void Structure::place(const sharding::PlacementOptions& options,
                      const std::vector<sharding::Rule>& family) {
  placement_ = sharding::place(manifest_, options, family);
  manifest_ = placement_.manifest;
}

const sharding::ParamType& Structure::stored_type(const Param& param) const {
  auto it = slot_of_.find(&owner_of(param));
  invariant(it != slot_of_.end(), "nn.foreign_param", "a parameter of the frozen model");
  return manifest_.slots()[it->second].type;
}

sharding::ParamType Structure::layout_of(const Param& param) const {
  sharding::ParamType type = stored_type(param);
  std::erase_if(type.dims, [](const sharding::Dim& d) { return d.role != sharding::Role::none; });
  return type;
}

const sharding::LayerPlan& Structure::plan(const LayerStack& stack) const {
  auto it = plan_of_.find(&stack);
  invariant(it != plan_of_.end(), "nn.foreign_stack", "a stack of the frozen model");
  return it->second;
}

const std::vector<std::vector<int64_t>>& Structure::neighbours(const LayerStack& stack) const {
  auto it = neighbours_of_.find(&stack);
  invariant(it != neighbours_of_.end(), "nn.foreign_stack", "a stack of the frozen model");
  return it->second;
}

// ---- Slots --------------------------------------------------------------------------------------

void Structure::add_own(const Param& param) {
  if (&owner_of(param) != &param) return;
  if (!slot_of_.emplace(&param, slots_.size()).second) return;  // of all layers, so it came first
  slots_.push_back({param.path(), param.kind(), param.type()});
  members_.push_back({&param});
}

void Structure::add_module(const Module& module) {
  const LayerStack* stack = as_stack(&module);
  if (stack != nullptr && !plan_of_.contains(stack)) return add_stack(*stack);
  for (const Param* p : module.params()) add_own(*p);
  for (const Module* child : module.children()) add_module(*child);
}

void Structure::add_stack(const LayerStack& stack) {
  if (stack.size() == 0) return;
  StackPlan planned = plan_layers(stack, options_);
  reasons_.insert(reasons_.end(), planned.reasons.begin(), planned.reasons.end());
  shared_.insert(planned.sharing.buffers().begin(), planned.sharing.buffers().end());
  plan_of_[&stack] = planned.plan;
  neighbours_of_[&stack] = planned.neighbours;
  plans_.push_back(planned.plan);
  for (const Module* layer : stack.children()) unroll_inner(*layer);
  for (const Param* p : planned.sharing.owners()) {
    unstacked_.insert(p);
    add_own(*p);
  }
  for (size_t r = 0; r < planned.plan.runs.size(); ++r) {
    add_run(stack, planned.plan, static_cast<int64_t>(r));
  }
}

// Stacks inside of layers.
void Structure::unroll_inner(const Module& module) {
  if (const LayerStack* inner = as_stack(&module)) {
    auto count = static_cast<int64_t>(inner->size());
    plan_of_[inner] = {inner->path(), {}};
    if (count > 0) plan_of_[inner].runs = {{0, count, 1, false}};
    neighbours_of_[inner].resize(plan_of_[inner].runs.size());
  }
  for (const Module* child : module.children()) unroll_inner(*child);
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
    std::vector<std::vector<const Param*>> layers;
    for (int64_t k = 0; k < r.repeats; ++k) {
      auto layer = static_cast<size_t>(plan.layer_at({run, k, slot}));
      layers.push_back(own_params(stack.layer(layer)));
    }
    size_t prefix = stack.layer(static_cast<size_t>(r.first + slot)).path().size() + 1;
    for (size_t p = 0; p < layers[0].size(); ++p) {
      const Param& leaf = *layers[0][p];
      std::vector<const Param*> members;
      for (const auto& layer : layers) {
        members.push_back(layer[p]);
        slot_of_[layer[p]] = slots_.size();
      }
      sharding::Dim dim{r.repeats, sharding::Role::layer, "layers", {}};
      std::string name = plan.stacked_name(run, slot, leaf.path().substr(prefix));
      slots_.push_back(
          {name, leaf.kind(), insert_layer_dim(leaf.type(), options_.param_axis, dim, name)});
      members_.push_back(std::move(members));
    }
  }
}

bool Structure::is_stacked(const Param& param) const {
  return slots_[slot_of_.at(&param)].type.position_of(sharding::Role::layer).has_value();
}

// ---- Ties ---------------------------------------------------------------------------------------

std::vector<sharding::Tie> Structure::all_ties(const Module& root,
                                               std::vector<sharding::Tie> given) const {
  std::vector<sharding::Tie> ties;
  for (const Param* p : root.all_params()) {
    if (&owner_of(*p) != p) tie(*p, ties);
    for (const sharding::Tie& t : given) {
      if (t.owner != p->path() || !is_owner(*p) || !is_stacked(*p)) continue;
      breaks_stack(t.alias, *p, slots_[slot_of_.at(p)].name);
    }
  }
  ties.insert(ties.end(), given.begin(), given.end());
  return ties;
}

void Structure::tie(const Param& alias, std::vector<sharding::Tie>& ties) const {
  const Param& owner = owner_of(alias);
  require(is_owner(owner), {.id = "nn.tie_outside",
                            .where = alias.path(),
                            .expected = "a name of a parameter of the same model",
                            .got = "a name of " + owner.path() + ", which is none of it"});
  size_t slot = slot_of_.at(&owner);
  const std::string& name = slots_[slot].name;
  if (!is_stacked(owner)) {
    ties.push_back({alias.path(), name});
    return;
  }
  const Module* layer = layer_of(owner);
  if (layer_of(alias) != layer) breaks_stack(alias.path(), owner, name);
  // One tie stands for all layers of the slot, under a stacked name as well.
  if (members_[slot].front() != &owner) return;
  std::string stacked = name.substr(0, name.find("].") + 2);
  ties.push_back({stacked + alias.path().substr(layer->path().size() + 1), name});
}

// ---- Taps ---------------------------------------------------------------------------------------

void Structure::add_taps(const Module& module, bool in_layer) {
  if (in_layer && as_stack(&module) != nullptr) return;
  bool layer = in_layer || (module.parent() != nullptr && as_stack(module.parent()) != nullptr);
  for (const Tap* t : module.taps()) {
    add_once(taps_, common_path(*t));
    if (layer) add_once(layer_taps_, t->name());
  }
  for (const Module* child : module.children()) add_taps(*child, layer);
}

void Structure::check_remat() const {
  for (const std::string& name : options_.remat.names) {
    bool known = std::find(layer_taps_.begin(), layer_taps_.end(), name) != layer_taps_.end();
    require(known, {.id = "nn.remat_name",
                    .where = "remat " + text_of(options_.remat),
                    .expected = layer_taps_.empty()
                                    ? "no names, as no layer of this model has taps"
                                    : "names of taps of the layers: " + join(layer_taps_, ", "),
                    .got = "'" + name + "'",
                    .code = Code::not_found});
  }
}

}  // namespace strata::nn
