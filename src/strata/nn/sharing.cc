#include "strata/nn/sharing.h"

#include <algorithm>
#include <map>
#include <string>

#include "strata/nn/layer_stack.h"

namespace strata::nn {
namespace {

// The parameters of a layer by their names inside it.
std::map<std::string, const Param*> by_key(const Layer& layer) {
  std::map<std::string, const Param*> out;
  for (const Param* p : layer.all_params()) out[p->path().substr(layer.path().size() + 1)] = p;
  return out;
}

bool contains(const std::vector<const Param*>& list, const Param* p) {
  return std::find(list.begin(), list.end(), p) != list.end();
}

}  // namespace

Sharing::Sharing(const LayerStack& stack) {
  share_buffers(stack);
  share_parameters(stack);
}

void Sharing::share_buffers(const LayerStack& stack) {
  std::map<std::string, const Param*> first;
  for (size_t i = 0; i < stack.size(); ++i) {
    for (const auto& entry : by_key(stack.layer(i))) {
      const Param* p = entry.second;
      bool shared = p->kind() == sharding::Kind::buffer && p->share() == Share::shared;
      if (!shared || &p->resolved() != p) continue;
      auto found = first.emplace(entry.first + " " + text_of(p->type()), p);
      if (found.second) owners_.push_back(p);
      owner_of_[p] = found.first->second;
    }
  }
}

void Sharing::share_parameters(const LayerStack& stack) {
  if (stack.size() < 2) return;
  std::vector<std::map<std::string, const Param*>> layers;
  for (size_t i = 0; i < stack.size(); ++i) layers.push_back(by_key(stack.layer(i)));
  for (const auto& own : layers) {
    for (const auto& entry : own) {
      const Param* p = entry.second;
      if (&p->resolved() != p || owner_of_.contains(p)) continue;
      bool everywhere = std::all_of(layers.begin(), layers.end(), [&](const auto& layer) {
        auto it = layer.find(entry.first);
        return it != layer.end() && &it->second->resolved() == p;
      });
      if (everywhere) owners_.push_back(p);
    }
  }
}

const Param& Sharing::owner_of(const Param& param) const {
  const Param& target = param.resolved();
  auto it = owner_of_.find(&target);
  return it == owner_of_.end() ? target : *it->second;
}

bool Sharing::is_owner(const Param& param) const { return contains(owners_, &param); }

}  // namespace strata::nn
