#include "strata/ir/ir.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "strata/sharding/shardy.h"

namespace strata::ir {

const OpDef kParameter{.name = "parameter", .arity = 0, .gradient = NoGradient, .cost = Cost::free};

const Type& Value::type() const {
  if (node == nullptr) invariant(false, "ir.null_value", "a value, not null");
  return node->results[static_cast<size_t>(index)];
}

int64_t Value::dim(int64_t axis) const {
  const Dims& d = dims();
  int64_t at = axis < 0 ? axis + rank() : axis;
  if (at < 0 || at >= rank()) {
    fail({.id = "ir.axis",
          .where = place(*node),
          .expected = "an axis of " + text(type()),
          .got = std::to_string(axis),
          .code = Code::out_of_range});
  }
  return d[static_cast<size_t>(at)];
}

Function& Value::function() const { return *node->function; }

void Attributes::set(std::string_view name, Attribute value) {
  for (auto& row : rows_) {
    if (row.first == name) {
      row.second = std::move(value);
      return;
    }
  }
  rows_.emplace_back(std::string(name), std::move(value));
}

const Attribute* Attributes::find(std::string_view name) const {
  for (const auto& row : rows_) {
    if (row.first == name) return &row.second;
  }
  return nullptr;
}

std::string place(const Node& node) {
  std::string text(node.def->name);
  if (!node.loc.empty()) text += " at " + node.loc;
  return text;
}

Function::Function(std::string name) : name_(std::move(name)) {}

Value Function::parameter(Type type, std::string name) {
  Node& node = nodes_.emplace_back();
  node.def = &kParameter;
  node.function = this;
  node.home = current_;
  node.results = {std::move(type)};
  node.id = nodes_.size();
  node.loc = scope_;
  current_->params.push_back(node.result());
  if (current_ == &top_) argument_ports_.push_back({std::move(name), {}});
  return node.result();
}

Value Function::declare(const sharding::ParamType& type, std::string name) {
  Value value = parameter({type.dtype, type.sizes()}, std::move(name));
  argument_ports_.back().axes = axes_of(type);
  return value;
}

void Function::set_mesh(const sharding::Mesh& mesh) {
  mesh_ = mesh;
  if (mesh.size() == 1) return;
  module_header = "  " + sharding::shardy_mesh(mesh);
  num_partitions = static_cast<int>(mesh.size());
}

std::vector<std::vector<std::string>> axes_of(const sharding::ParamType& type) {
  std::vector<std::vector<std::string>> axes;
  for (const sharding::Dim& dim : type.dims) axes.push_back(dim.axes);
  return axes;
}

Node& Function::add(const OpDef& def, Values operands, Attributes attributes,
                    std::vector<std::unique_ptr<Region>> regions) {
  Node& node = nodes_.emplace_back();
  node.def = &def;
  node.function = this;
  node.home = current_;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.regions = std::move(regions);
  node.id = nodes_.size();
  node.loc = scope_;
  if (def.arity >= 0 && node.operands.size() != static_cast<size_t>(def.arity)) {
    fail({.id = "ir.arity",
          .where = place(node),
          .expected = std::to_string(def.arity) + " operands",
          .got = std::to_string(node.operands.size())});
  }
  for (const Value& v : node.operands) {
    if (!v || v.node->function != this) {
      fail({.id = "ir.foreign_value",
            .where = place(node),
            .expected = "operands traced in the same function",
            .got = v ? "a value of another function" : "a null value"});
    }
  }
  node.results = def.shape(node);
  return node;
}

Node& Function::clone(const Node& source, Values operands) {
  Node& node = nodes_.emplace_back();
  node.def = source.def;
  node.function = this;
  node.home = current_;
  node.operands = std::move(operands);
  node.attributes = source.attributes;
  for (const auto& region : source.regions) node.regions.push_back(clone(*region));
  node.results = source.results;
  node.id = nodes_.size();
  node.loc = source.loc;
  return node;
}

std::unique_ptr<Region> Function::clone(const Region& source) {
  RegionScope scope(*this);
  Values params;
  for (const Value& p : source.params) params.push_back(scope.parameter(p.type()));
  Values captured = scope.close(inline_region(*this, source, params));
  invariant(captured.empty(), "ir.open_region", "a closed region to copy");
  return scope.take();
}

void Function::set_results(Values results, std::vector<Port> ports) {
  for (const Value& v : results) {
    require(v && v.node->function == this, {.id = "ir.foreign_result",
                                            .where = name_,
                                            .expected = "results traced in this function",
                                            .got = v ? "a value of another function" : "null"});
  }
  ports.resize(results.size());
  top_.results = std::move(results);
  result_ports_ = std::move(ports);
}

RegionScope::RegionScope(Function& function)
    : function_(function), region_(std::make_unique<Region>()), outer_(function.current_) {
  region_->parent = outer_;
  function.current_ = region_.get();
}

RegionScope::~RegionScope() { function_.current_ = outer_; }

Value RegionScope::parameter(Type type) { return function_.parameter(std::move(type)); }

Values RegionScope::close(Values results) {
  region_->results = std::move(results);
  Values captured = capture_free_values(function_, *region_);
  function_.current_ = outer_;
  return captured;
}

NameScope::NameScope(Function& function, std::string_view name)
    : function_(function), length_(function.scope_.size()) {
  if (!function.scope_.empty()) function.scope_ += "/";
  function.scope_ += name;
}

NameScope::~NameScope() { function_.scope_.resize(length_); }

LocationScope::LocationScope(Function& function, std::string location)
    : function_(function), outer_(std::exchange(function.scope_, std::move(location))) {}

LocationScope::~LocationScope() { function_.scope_ = std::move(outer_); }

Values copy_values(Function& function, std::span<const Value> wanted, ValueMap& map) {
  std::vector<std::pair<Node*, size_t>> stack;
  Values out;
  for (const Value& root : wanted) {
    if (!map.contains(root)) stack.emplace_back(root.node, 0);
    while (!stack.empty()) {
      auto [n, at] = stack.back();
      invariant(n->def != &kParameter, "ir.copy_parameter", "every parameter mapped before a copy");
      if (at < n->operands.size()) {
        ++stack.back().second;
        if (!map.contains(n->operands[at])) stack.emplace_back(n->operands[at].node, 0);
        continue;
      }
      stack.pop_back();
      if (map.contains(n->result())) continue;
      Values operands;
      for (const Value& v : n->operands) operands.push_back(map.at(v));
      Node& copy = function.clone(*n, std::move(operands));
      for (int i = 0; i < static_cast<int>(n->results.size()); ++i) {
        map.try_emplace(n->result(i), copy.result(i));
      }
    }
    out.push_back(map.at(root));
  }
  return out;
}

Values inline_region(Function& function, const Region& region, std::span<const Value> arguments) {
  invariant(arguments.size() == region.params.size(), "ir.inline_arguments",
            "one argument per region parameter");
  ValueMap map;
  for (size_t i = 0; i < arguments.size(); ++i) map[region.params[i]] = arguments[i];
  return copy_values(function, region.results, map);
}

std::vector<Node*> post_order(std::span<const Value> results, const Region* region) {
  std::vector<Node*> order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<Node*, size_t>> stack;
  auto enter = [&](Node* n) {
    if (region != nullptr && n->home != region) return;
    if (seen.insert(n).second) stack.emplace_back(n, 0);
  };
  for (const Value& v : results) {
    enter(v.node);
    while (!stack.empty()) {
      Node* n = stack.back().first;
      if (stack.back().second == n->operands.size()) {
        order.push_back(n);
        stack.pop_back();
      } else {
        enter(n->operands[stack.back().second++].node);
      }
    }
  }
  return order;
}

namespace {

// Constants are copied into a region rather than captured: a loop would carry them.
bool is_copied_in(const Node& n) { return n.operands.empty() && n.def != &kParameter; }

}  // namespace

Values capture_free_values(Function& function, Region& region) {
  Values captured;
  std::unordered_map<Value, Value, ValueHash> inside;
  auto replace = [&](Value& v) {
    if (v.node->home == &region) return;
    auto [it, fresh] = inside.try_emplace(v);
    if (fresh && is_copied_in(*v.node)) {
      it->second = {&function.clone(*v.node, {}), v.index};
    } else if (fresh) {
      it->second = function.parameter(v.type());
      captured.push_back(v);
    }
    v = it->second;
  };
  for (Node* n : post_order(region.results, &region)) {
    for (Value& v : n->operands) replace(v);
  }
  for (Value& v : region.results) replace(v);
  return captured;
}

}  // namespace strata::ir
