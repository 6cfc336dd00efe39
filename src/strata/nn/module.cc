#include "strata/nn/module.h"

#include <utility>

#include "strata/base/error.h"

namespace strata::nn {

Param::Param(Module* owner, std::string name, sharding::ParamType type, sharding::Kind kind)
    : owner_(owner), name_(std::move(name)), type_(std::move(type)), kind_(kind) {
  owner->claim(name_);
  owner->params_.push_back(this);
}

std::string Param::path() const {
  std::string prefix = owner_->path();
  return prefix.empty() ? name_ : prefix + "." + name_;
}

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
  std::string prefix = parent_->path();
  return prefix.empty() ? name_ : prefix + "." + name_;
}

void Module::claim(std::string_view name) const {
  bool taken = name.empty();
  for (const Param* p : params_) taken = taken || p->name() == name;
  for (const Module* m : children_) taken = taken || m->name() == name;
  require(!taken, {.id = "nn.member_name",
                   .where = path().empty() ? "root module" : path(),
                   .expected = "a new, non-empty member name",
                   .got = "'" + std::string(name) + "'",
                   .code = Code::already_exists});
}

std::vector<const Param*> Module::all_params() const {
  std::vector<const Param*> out = params_;
  for (const Module* m : children_) {
    std::vector<const Param*> below = m->all_params();
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

}  // namespace strata::nn
