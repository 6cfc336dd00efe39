// The traced program: Functions made of Nodes that produce Values.
//
// A Function owns its nodes and never frees one before it dies, so a Value is a plain pair of
// pointer and index. Building is append-only: `Function::add` infers the result types by the op's
// shape rule and throws on a misuse. Dead nodes are harmless: every consumer (printer, gradient
// sweep, lowering) walks post-order from the results, operands left to right, without recursion,
// so that the same program prints as the same text on every compiler.
//
// Regions are the bodies of scan, cond and their kind. Tracing a region is tracing ordinary code
// inside a RegionScope; what the body captures from outside becomes an explicit operand when the
// region is closed (`capture_free_values`).
//
// Threads: one Function is built by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "strata/base/error.h"
#include "strata/ir/type.h"
#include "strata/sharding/dim.h"
#include "strata/sharding/mesh.h"

namespace strata::ir {

struct Node;
struct OpDef;
class Function;

// One result of a node. A default-constructed Value is null; gradients use that for "zero".
struct Value {
  Node* node = nullptr;
  int index = 0;

  explicit operator bool() const { return node != nullptr; }
  bool operator==(const Value&) const = default;
  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Dims& dims() const { return type().dims; }
  int64_t rank() const { return type().rank(); }
  // Size of dim `axis`; negative counts from the end. Throws out_of_range.
  int64_t dim(int64_t axis) const;
  Function& function() const;
};

using Values = std::vector<Value>;

struct ValueHash {
  size_t operator()(const Value& v) const {
    return std::hash<const void*>()(v.node) * 31 + static_cast<size_t>(v.index);
  }
};

using Attribute = std::variant<bool, int64_t, double, std::string, Dims, std::vector<std::string>,
                               std::shared_ptr<const HostTensor>>;

// Named attributes in the order they were given. Few per node, so lookup is linear.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> rows) : rows_(rows) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Throws internal when the attribute is absent or of another type: builders set what rules read.
  template <class T>
  const T& get(std::string_view name) const {
    const Attribute* a = find(name);
    invariant(a != nullptr && std::holds_alternative<T>(*a), "ir.attribute",
              "attribute '" + std::string(name) + "' of the type its op declares");
    return std::get<T>(*a);
  }
  void set(std::string_view name, Attribute value);
  const std::vector<std::pair<std::string, Attribute>>& rows() const { return rows_; }

 private:
  const Attribute* find(std::string_view name) const;
  std::vector<std::pair<std::string, Attribute>> rows_;
};

// A body with its own parameters. Closed: it uses only its parameters and its own nodes.
struct Region {
  Region* parent = nullptr;
  Values params;
  Values results;
};

struct Node {
  const OpDef* def = nullptr;
  Function* function = nullptr;
  Region* home = nullptr;  // the region whose tracing created the node
  Values operands;
  Attributes attributes;
  std::vector<std::unique_ptr<Region>> regions;
  std::vector<Type> results;
  std::string loc;  // module path, e.g. "model/layers.3/mlp"
  uint64_t id = 0;  // order of creation; for messages and deterministic iteration only

  Value result(int index = 0) { return {this, index}; }
};

// What is wrong with operand or attribute, as text for `where`: "dot_general at model/layers.3".
std::string place(const Node& node);

// ---- Op definitions -----------------------------------------------------------------------------

// Infers the result types of a node whose operands, attributes and regions are set. Throws
// invalid_argument naming op, expectation and both sides.
using ShapeRule = std::vector<Type> (*)(const Node& node);

// Cotangents of the operands, given those of the results (null = zero). Returns one Value per
// operand; null means the gradient is zero. Runs in the region being traced.
using GradientRule = Values (*)(Node& node, std::span<const Value> cotangents);

// Primitive ops that compute the same as `node` from `operands`; one Value per result.
using LowerRule = Values (*)(Node& node, std::span<const Value> operands);

// Text of the attributes in MLIR's generic form, e.g. {"dimensions", "array<i64: 0>"}.
using AttributeTexts = std::vector<std::pair<std::string, std::string>>;
using PrintRule = AttributeTexts (*)(const Node& node);

// The gradient of an op is one of three declared states.
struct Gradient {
  enum class State { no_rule_yet, none, rule, region };
  State state = State::no_rule_yet;
  GradientRule apply = nullptr;
};
// The default, so that a forgotten rule is never a silent zero: differentiating throws
// Unimplemented naming the op.
inline constexpr Gradient NoRuleYet{};
// Proved zero (integers, comparisons, stop_gradient).
inline constexpr Gradient NoGradient{Gradient::State::none, nullptr};
// The op has regions; room transform knows how to differentiate it.
inline constexpr Gradient RegionGradient{Gradient::State::region, nullptr};
constexpr Gradient rule(GradientRule apply) { return {Gradient::State::rule, apply}; }

// What a saved intermediate costs to compute again; remat policies read it.
enum class Cost { free, elementwise, heavy };

// One record per op; see docs/adding_an_op.md.
struct OpDef {
  std::string_view name;  // StableHLO mnemonic = C++ builder = test name
  int arity = 0;          // operands; -1 = any number
  ShapeRule shape = nullptr;
  Gradient gradient = NoRuleYet;
  PrintRule print = nullptr;  // null: no attributes in the text
  LowerRule lower = nullptr;  // null: the printer writes it as it is; see also print
  Cost cost = Cost::heavy;
  std::string_view dialect = "stablehlo";
  // The region's text captures outer values (stablehlo.if): its parameters stand for the operands
  // after the first instead of being block arguments.
  bool region_captures = false;
};

// The op of a region's or function's parameter.
extern const OpDef kParameter;

// ---- Functions ----------------------------------------------------------------------------------

// What the program's text says about one argument or result of the entry function.
struct Port {
  std::string name;        // for reports and errors; not part of the text
  std::string attributes;  // MLIR text, e.g. `tf.aliasing_output = 0 : i32`
  // Mesh axes of each dim, major first; shorter than the rank or empty = the rest is replicated.
  // Read in a function with a mesh only.
  std::vector<std::vector<std::string>> axes = {};
};

class Function {
 public:
  explicit Function(std::string name = "main");
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  const std::string& name() const { return name_; }

  // Declares the next parameter of the region being traced (the function itself at the start).
  Value parameter(Type type, std::string name = {});
  // A parameter with the type and the mesh axes of a declared type.
  Value declare(const sharding::ParamType& type, std::string name);
  // Appends a node; infers its types. Throws what the shape rule throws, with the module path.
  Node& add(const OpDef& def, Values operands, Attributes attributes = {},
            std::vector<std::unique_ptr<Region>> regions = {});
  // A copy of `node` with other operands in the region being traced (regions are copied deeply).
  Node& clone(const Node& node, Values operands);
  // A deep copy of a closed region, whose parent is the region being traced.
  std::unique_ptr<Region> clone(const Region& region);

  Region& top() { return top_; }
  const Region& top() const { return top_; }
  Region& current() { return *current_; }

  // Sets the results; `ports` describe them (may be shorter).
  void set_results(Values results, std::vector<Port> ports = {});
  std::vector<Port>& argument_ports() { return argument_ports_; }
  const std::vector<Port>& argument_ports() const { return argument_ports_; }
  std::vector<Port>& result_ports() { return result_ports_; }
  const std::vector<Port>& result_ports() const { return result_ports_; }

  // Makes the program one for all devices of `mesh`: its arguments and results are then laid out as
  // their ports say. A mesh of one device changes nothing.
  void set_mesh(const sharding::Mesh& mesh);
  const sharding::Mesh& mesh() const { return mesh_; }

  // Lines at the head of the module (e.g. sdy.mesh) and the number of partitions it is made for.
  std::string module_header;
  int num_partitions = 1;

  size_t node_count() const { return nodes_.size(); }
  const std::string& scope() const { return scope_; }

 private:
  friend class RegionScope;
  friend class NameScope;
  friend class LocationScope;
  std::string name_;
  std::deque<Node> nodes_;
  Region top_;
  Region* current_ = &top_;
  std::string scope_;
  std::vector<Port> argument_ports_;
  std::vector<Port> result_ports_;
  sharding::Mesh mesh_;
};

// The mesh axes of each dim of a declared type, as a Port has them.
std::vector<std::vector<std::string>> axes_of(const sharding::ParamType& type);

// While alive, nodes go to a new region. `close(results)` captures free values: every value from
// outside becomes a parameter appended to the region (constants are copied in), and the list of
// those outer values is returned. `take()` then gives the region.
class RegionScope {
 public:
  explicit RegionScope(Function& function);
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;
  ~RegionScope();

  Value parameter(Type type);
  Values close(Values results);
  std::unique_ptr<Region> take() { return std::move(region_); }

 private:
  Function& function_;
  std::unique_ptr<Region> region_;
  Region* outer_;
};

// While alive, new nodes carry "outer/name" as their location.
class NameScope {
 public:
  NameScope(Function& function, std::string_view name);
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  ~NameScope();

 private:
  Function& function_;
  size_t length_;
};

// While alive, new nodes carry exactly `location`: gradients are placed at the forward op.
class LocationScope {
 public:
  LocationScope(Function& function, std::string location);
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;
  ~LocationScope();

 private:
  Function& function_;
  std::string outer_;
};

// Nodes that `results` need, operands before users, operands left to right; stops at nodes outside
// `region` (pass nullptr to follow them). Iterative. Region bodies are not entered.
std::vector<Node*> post_order(std::span<const Value> results, const Region* region);

// Copies into the region being traced what `wanted` needs. `map` gives the copies of values that
// exist already (parameters, at least) and receives the rest. The source may belong to another
// function. Throws internal when a parameter is reached that `map` lacks.
using ValueMap = std::unordered_map<Value, Value, ValueHash>;
Values copy_values(Function& function, std::span<const Value> wanted, ValueMap& map);

// The body of `region` with `arguments` for its parameters, copied into the region being traced.
Values inline_region(Function& function, const Region& region, std::span<const Value> arguments);

// Replaces every use of outer values in `region` (see RegionScope::close).
Values capture_free_values(Function& function, Region& region);

// ---- Text ---------------------------------------------------------------------------------------

// The whole module in MLIR's generic form: the compiler's input and the debug dump. Every op must
// be printable (run transform::lower first). `locations`: write loc("module/path") on each op.
std::string print_module(const Function& function, bool locations = true);

}  // namespace strata::ir
