#include "strata/nn/module.h"

#include <utility>

#include "strata/base/error.h"

namespace strata::nn {

namespace {

const Module& root_of(const Module& module) {
  const Module* at = &module;
  while (at->parent() != nullptr) at = at->parent();
  return *at;
}

std::string joined(std::string prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return std::move(prefix) + "." + name;
}

}  // namespace

Param::Param(Module* owner, std::string name, sharding::ParamType type)
    : Param(owner, std::move(name), std::move(type), sharding::Kind::param, Share::per_layer) {}

Param::Param(Module* owner, std::string name, const Param& target)
    : Param(owner, std::move(name), target.type(), target.kind(), target.share()) {
  target_ = &target.resolved();
}

Param::Param(Module* owner, std::string name, sharding::ParamType type, sharding::Kind kind,
             Share share)
    : owner_(owner), name_(std::move(name)), type_(std::move(type)), kind_(kind), share_(share) {
  owner->claim(name_);
  owner->params_.push_back(this);
}

Buffer::Buffer(Module* owner, std::string name, sharding::ParamType type, Share share)
    : Param(owner, std::move(name), std::move(type), sharding::Kind::buffer, share) {}

Adapter::Adapter(Module* owner, std::string name, sharding::ParamType type)
    : Param(owner, std::move(name), std::move(type), sharding::Kind::adapter, Share::per_layer) {}

Tap::Tap(Module* owner, std::string name) : owner_(owner), name_(std::move(name)) {
  owner->claim(name_);
  owner->taps_.push_back(this);
}

std::string Param::path() const { return joined(owner_->path(), name_); }

Module::Module(Module* parent, std::string name) : parent_(parent), name_(std::move(name)) {
  if (parent == nullptr) return;
  parent->claim(name_);
  parent->children_.push_back(this);
}

Module::~Module() {
  if (parent_ != nullptr) std::erase(parent_->children_, this);
}

std::string Module::path() const {
  if (parent_ == nullptr) return name_;
  return joined(parent_->path(), name_);
}

void Module::claim(std::string_view name) const {
  bool taken = name.empty();
  for (const Param* p : params_) taken = taken || p->name() == name;
  for (const Tap* t : taps_) taken = taken || t->name() == name;
  for (const Module* m : children_) taken = taken || m->name() == name;
  require(!taken, {.id = "nn.member_name",
                   .where = path().empty() ? "root module" : path(),
                   .expected = "a new, non-empty member name",
                   .got = "'" + std::string(name) + "'",
                   .code = Code::already_exists});
  require(!root_of(*this).frozen_,
          {.id = "nn.frozen",
           .where = path().empty() ? "root module" : path(),
           .expected = "members declared before the model's structure is made",
           .got = "'" + std::string(name) + "' declared after that",
           .cure = "Declare it while the model is built, or in a model transform",
           .code = Code::failed_precondition});
}

std::vector<InitialValue> Module::initial_values(const Context&) const { return {}; }

bool Module::frozen() const { return root_of(*this).frozen_; }

void Module::freeze() const { root_of(*this).frozen_ = true; }

std::vector<const Param*> Module::all_params() const {
  std::vector<const Param*> out = params_;
  for (const Module* m : children_) {
    std::vector<const Param*> below = m->all_params();
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

}  // namespace strata::nn
