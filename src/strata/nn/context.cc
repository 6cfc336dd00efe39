#include "strata/nn/context.h"

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/hash.h"
#include "strata/nn/layer_stack.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/random.h"
#include "strata/sharding/shardy.h"

namespace strata::nn {
namespace {

uint32_t word_of(std::string_view text) {
  return static_cast<uint32_t>(std::stoul(sha256(text).substr(0, 8), nullptr, 16));
}

std::string path_or_root(const Module& module) {
  std::string path = module.path();
  return path.empty() ? "root module" : path;
}

std::vector<std::string> batch_axes(const sharding::Placement& placement) {
  std::vector<std::string> axes;
  for (const sharding::Rule& rule : placement.rules) {
    if (rule.name != "batch") continue;
    for (const auto& candidate : rule.candidates) {
      axes.insert(axes.end(), candidate.begin(), candidate.end());
    }
  }
  return axes;
}

bool contains(const std::vector<std::string>& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace

// The placement as traced code sees it: without the manual axes, of which it holds one part.
struct MeshView {
  sharding::Placement placement;
  std::vector<std::string> batch;  // axes that may split the batch
};

Context Context::over_mesh(std::vector<std::string> manual) const {
  Context copy = *this;
  const sharding::Placement& whole = structure_->placement();
  if (!whole.partitioned()) return copy;
  auto view = std::make_shared<MeshView>(MeshView{whole, batch_axes(whole)});
  view->placement.strict = false;  // what the batch's own layout did not refuse
  for (sharding::Rule& rule : view->placement.rules) {
    for (auto& candidate : rule.candidates) {
      std::erase_if(candidate, [&](const std::string& axis) { return contains(manual, axis); });
    }
  }
  copy.mesh_ = std::move(view);
  return copy;
}

ir::Value Context::lay_out(ir::Value x, const std::vector<std::string>& names) const {
  if (mesh_ == nullptr) return x;
  sharding::ParamType type = sharding::plain_type(x.dtype(), x.dims());
  invariant(names.size() == type.dims.size(), "nn.lay_out", "one logical name for each dim");
  for (size_t i = 0; i < names.size(); ++i) type.dims[i].name = names[i];
  std::vector<std::string> reasons;
  type = place_array(mesh_->placement, type, "an activation", reasons);
  return ops::sharding_constraint(x, sharding::shardy_sharding(ir::axes_of(type)));
}

ops::StackParts Context::stack_parts(const Param& param) const {
  if (function_->mesh().size() == 1) return {};
  sharding::ParamType type = structure_->stored_type(param);
  auto layer = std::find_if(type.dims.begin(), type.dims.end(),
                            [](const sharding::Dim& d) { return d.role == sharding::Role::layer; });
  if (layer == type.dims.end() || layer->axes.empty() || !is_float(type.dtype)) return {};
  int64_t parts = structure_->mesh().axes_size(layer->axes);
  type.dims.insert(std::next(layer), sharding::Dim{});  // the steps of a part
  return {parts, sharding::shardy_sharding(ir::axes_of(type))};
}

// The whole parameter but for the axes that split the model itself. Its gradient takes the same
// steps back: summed as it is used, then cut as the parameter lies, which moves nothing.
ir::Value Context::gathered(const Param& param, ir::Value value) const {
  if (mesh_ == nullptr) return value;
  sharding::ParamType type = structure_->layout_of(param);
  if (type.sizes() != value.dims()) return value;  // a whole stack
  value = ops::sharding_constraint(value, sharding::shardy_sharding(ir::axes_of(type)));
  for (sharding::Dim& dim : type.dims) {
    std::erase_if(dim.axes, [&](const std::string& axis) { return contains(mesh_->batch, axis); });
  }
  return ops::sharding_constraint(value, sharding::shardy_sharding(ir::axes_of(type)));
}

Context::Context(ir::Function& function, const Structure& structure, const ir::Values& slots)
    : function_(&function), structure_(&structure) {
  const auto& declared = structure.manifest().slots();
  require(slots.size() == declared.size(), {.id = "nn.slot_count",
                                            .where = "parameters",
                                            .expected = std::to_string(declared.size()) + " values",
                                            .got = std::to_string(slots.size())});
  auto values = std::make_shared<Bindings>();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].dims() != declared[i].type.sizes()) {
      fail({.id = "nn.slot_dims",
            .where = declared[i].name,
            .expected = text_of(declared[i].type),
            .got = ir::text(slots[i].type())});
    }
    // A stacked slot stands under its first layer's parameter: the layer that the loop traces.
    (*values)[structure.members(i).front()] = slots[i];
  }
  values_ = std::move(values);
}

ir::Value Context::operator()(const Param& param) const {
  auto it = values_->find(&structure_->owner_of(param));
  if (it != values_->end()) return gathered(param, it->second);
  if (layer_ == nullptr) invariant(false, "nn.unbound_param", "a value for " + param.path());
  fail({.id = "nn.undeclared_read",
        .where = layer_->path(),
        .expected = "reads of parameters that the layer declares",
        .got = "a read of " + param.path(),
        .cure = "Declare it in the layer: Param(this, name, the other parameter)",
        .code = Code::failed_precondition});
}

Context Context::with_random(const Randomness& random) const {
  Context copy = *this;
  copy.random_ = random;
  return copy;
}

ir::Value Context::key(std::string_view stream, const Module& module) const {
  require(is_random(), {.id = "nn.no_random",
                        .where = path_or_root(module),
                        .expected = "a traced call with random keys (Context::with_random)",
                        .got = "none, asked for stream '" + std::string(stream) + "'",
                        .code = Code::failed_precondition});
  ir::Value key = ops::fold_in(random_.key, word_of(stream));
  key = ops::fold_in(key, word_of(common_path(module)));
  for (const ir::Value& layer : layers_) key = ops::fold_in(key, layer);
  return ops::fold_in(key, random_.step);
}

Context Context::with_taps(TapSink& sink) const {
  Context copy = *this;
  copy.sink_ = &sink;
  return copy;
}

ir::Value Context::tap(const Tap& tap, ir::Value value) const {
  ir::Value tagged = ops::tag(value, tap.name());
  bool wanted = sink_ != nullptr && sink_->wants(tap);
  bool new_here = emitted_ == nullptr || emitted_->emplace(&tap, tagged).second;
  bool reachable = !wanted || emitted_ == nullptr || tagged.node->home == region_;
  require(new_here && reachable,
          {.id = "nn.tap",
           .where = common_path(tap),
           .expected = "emitted once a call, and outside of the module's own loops and calls",
           .got = new_here ? "wanted as an output from inside of one" : "emitted twice",
           .code = Code::failed_precondition});
  if (wanted && emitted_ == nullptr) sink_->put({common_path(tap), {}, tagged});
  return tagged;
}

LayerScope::LayerScope(const Context& outer, const Module& layer, ir::Value index,
                       const ir::Values& values)
    : layer_(layer), context_(outer) {
  const Structure& structure = outer.structure();
  auto bound = std::make_shared<Context::Bindings>();
  std::vector<const Param*> own = structure.own_params(layer);
  for (size_t i = 0; i < values.size(); ++i) (*bound)[own[i]] = values[i];
  for (const Param* p : layer.all_params()) {
    const Param& owner = structure.owner_of(*p);
    if (!bound->contains(&owner)) (*bound)[&owner] = outer(owner);
  }
  context_.values_ = std::move(bound);
  context_.layers_.push_back(index);
  context_.layer_ = &layer;
  context_.emitted_ = &emitted_;
  context_.region_ = &outer.function().current();
}

std::vector<std::pair<const Tap*, ir::Value>> LayerScope::taps() const {
  std::vector<std::pair<const Tap*, ir::Value>> out;
  for (const Tap* t : taps_of(layer_)) {
    auto it = emitted_.find(t);
    require(it != emitted_.end(), {.id = "nn.tap_missing",
                                   .where = layer_.path(),
                                   .expected = "a value for each tap that the layer declares",
                                   .got = "none for " + common_path(*t),
                                   .cure = "Emit it with Context::tap in each call",
                                   .code = Code::failed_precondition});
    if (context_.sink_ != nullptr && context_.sink_->wants(*t)) out.emplace_back(t, it->second);
  }
  return out;
}

}  // namespace strata::nn
