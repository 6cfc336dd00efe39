#include "strata/nn/context.h"

#include <utility>

#include "strata/base/error.h"
#include "strata/base/hash.h"
#include "strata/nn/layer_stack.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/random.h"

namespace strata::nn {
namespace {

uint32_t word_of(std::string_view text) {
  return static_cast<uint32_t>(std::stoul(sha256(text).substr(0, 8), nullptr, 16));
}

std::string path_or_root(const Module& module) {
  std::string path = module.path();
  return path.empty() ? "root module" : path;
}

}  // namespace

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
  if (it != values_->end()) return it->second;
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
