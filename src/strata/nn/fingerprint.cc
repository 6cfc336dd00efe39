#include "strata/nn/fingerprint.h"

#include <algorithm>

namespace strata::nn {
namespace {

class Printer {
 public:
  Printer(const Module& layer, const Sharing& sharing)
      : prefix_(layer.path() + "."), sharing_(sharing) {
    add(layer, "");
  }

  Fingerprint out;

 private:
  void add(const Module& module, const std::string& key) {
    out.push_back({key, module.describe(), &typeid(module)});
    std::string dot = key.empty() ? "" : key + ".";
    for (const Param* p : module.params()) out.push_back(trait(*p, dot + p->name()));
    for (const Tap* t : module.taps()) out.push_back({dot + t->name(), "a tap"});
    for (const Module* child : module.children()) add(*child, dot + child->name());
  }

  Trait trait(const Param& p, std::string key) const {
    bool buffer = p.kind() == sharding::Kind::buffer;
    std::string type = text_of(p.type());
    const Param& owner = sharing_.owner_of(p);
    if (sharing_.is_owner(owner)) {
      return {std::move(key), (buffer ? "a shared buffer " : "shared by all layers, ") + type};
    }
    if (&owner != &p) {
      std::string path = owner.path();
      bool inside = path.starts_with(prefix_);
      return {std::move(key), "tied to " + (inside ? "its " + path.substr(prefix_.size()) : path)};
    }
    bool adapter = p.kind() == sharding::Kind::adapter;
    Trait own{std::move(key), (buffer ? "a buffer " : adapter ? "an adapter " : "") + type};
    own.per_layer_buffer = buffer;
    return own;
  }

  std::string prefix_;  // of the paths inside the layer
  const Sharing& sharing_;
};

bool has(const Fingerprint& traits, const std::string& key) {
  return std::any_of(traits.begin(), traits.end(), [&](const Trait& t) { return t.key == key; });
}

}  // namespace

bool Trait::operator==(const Trait& other) const {
  bool same_type =
      (type == nullptr) == (other.type == nullptr) && (type == nullptr || *type == *other.type);
  return key == other.key && text == other.text && same_type;
}

Fingerprint fingerprint(const Module& layer, const Sharing& sharing) {
  return Printer(layer, sharing).out;
}

std::string first_difference(const Module& a, const Fingerprint& of_a, const Module& b,
                             const Fingerprint& of_b) {
  auto at = std::mismatch(of_a.begin(), of_a.end(), of_b.begin(), of_b.end());
  bool ended_a = at.first == of_a.end(), ended_b = at.second == of_b.end();
  if (ended_a && ended_b) return {};
  std::string text = a.path() + " and " + b.path() + " differ: ";
  if (!ended_a && !has(of_b, at.first->key)) {
    return text + at.first->key + " exists only in " + a.path();
  }
  if (!ended_b && !has(of_a, at.second->key)) {
    return text + at.second->key + " exists only in " + b.path();
  }
  // Neither ended: what is left of the longer would exist only there.
  const Trait &x = *at.first, &y = *at.second;
  if (x.key != y.key) return text + x.key + " stands where " + y.key + " stands in " + b.path();
  std::string what = x.key.empty() ? "one" : x.key;
  if (x.text == y.text) return text + what + " is another class of the name " + x.text;
  return text + what + " is " + x.text + " in " + a.path() + ", " + y.text + " in " + b.path();
}

}  // namespace strata::nn
