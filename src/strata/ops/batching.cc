#include "strata/ops/batching.h"

#include <algorithm>
#include <numeric>

#include "strata/base/error.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/ops/gather.h"
#include "strata/ops/linalg.h"
#include "strata/ops/misc.h"
#include "strata/ops/reduce.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"
#include "strata/ops/sort.h"

namespace strata::ops {
namespace {

Dims shifted(Dims axes) {
  for (int64_t& a : axes) ++a;
  return axes;
}

Dims prefixed(Dims dims, int64_t first) {
  dims.insert(dims.begin(), first);
  return dims;
}

Dims shifted_with_first(const Dims& axes) { return prefixed(shifted(axes), 0); }

[[noreturn]] void not_known(const Node& n, const char* what) {
  unimplemented({.id = "ops.on_parts_op",
                 .where = place(n),
                 .expected = "an op with a form for parts of a batch",
                 .got = std::string(n.def->name) + what,
                 .cure = "Train without data parallelism (no mesh axis for the batch alone)"});
}

bool is_any(const Node& n, std::initializer_list<const OpDef*> defs) {
  return std::find(defs.begin(), defs.end(), n.def) != defs.end();
}

// Ops that treat all elements, or all but the last dims, alike.
bool is_pointwise(const Node& n) {
  if (is_any(n, {&kTopK})) return true;
  if (!n.regions.empty() || n.operands.empty() || is_any(n, {&kCustomCall})) return false;
  return std::all_of(n.operands.begin(), n.operands.end(), [&](const Value& v) {
    return v.rank() == 0 || v.dims() == n.results[0].dims;
  });
}

}  // namespace

Value Batching::spread(const PartValue& v) {
  if (v.split) return v.value;
  Dims axes(v.value.dims().size());
  std::iota(axes.begin(), axes.end(), 1);
  return broadcast_in_dim(v.value, prefixed(v.value.dims(), parts_), axes);
}

Values Batching::spread_all(const std::vector<PartValue>& in) {
  Values out;
  for (const PartValue& v : in) out.push_back(spread(v));
  return out;
}

std::vector<PartValue> Batching::run(const ir::Region& body,
                                     const std::vector<PartValue>& arguments) {
  Map map;
  for (size_t i = 0; i < arguments.size(); ++i) map[body.params[i]] = arguments[i];
  for (Node* n : ir::post_order(body.results, &body)) {
    if (n->def == &ir::kParameter) continue;
    std::vector<PartValue> in;
    for (const Value& v : n->operands) in.push_back(map.at(v));
    ir::LocationScope at(f_, n->loc);
    std::vector<PartValue> out = node(*n, in);
    for (size_t i = 0; i < out.size(); ++i) map[n->result(static_cast<int>(i))] = out[i];
  }
  std::vector<PartValue> results;
  for (const Value& v : body.results) results.push_back(map.at(v));
  return results;
}

std::vector<PartValue> Batching::added(const Node& n, Values operands, Attributes attributes) {
  std::vector<std::unique_ptr<ir::Region>> regions;
  for (const auto& r : n.regions) regions.push_back(f_.clone(*r));
  Node& out = f_.add(*n.def, std::move(operands), std::move(attributes), std::move(regions));
  std::vector<PartValue> values;
  for (size_t i = 0; i < out.results.size(); ++i) {
    values.push_back({out.result(static_cast<int>(i)), true});
  }
  return values;
}

std::vector<PartValue> Batching::node(Node& n, const std::vector<PartValue>& in) {
  if (is_any(n, {&kWhile})) return loop(n, in);
  if (is_any(n, {&kIf})) return branches(n, in);
  Values plain;
  for (const PartValue& v : in) plain.push_back(v.value);
  if (is_any(n, {&kOptimizationBarrier})) {
    std::vector<PartValue> out;
    plain = optimization_barrier(plain);
    for (size_t i = 0; i < in.size(); ++i) out.push_back({plain[i], in[i].split});
    return out;
  }
  bool split = std::any_of(in.begin(), in.end(), [](const PartValue& v) { return v.split; });
  if (!split) {
    Node& copy = f_.clone(n, plain);
    std::vector<PartValue> out;
    for (size_t i = 0; i < n.results.size(); ++i) {
      out.push_back({copy.result(static_cast<int>(i)), false});
    }
    return out;
  }
  if (Value moved = placed_like(n, plain[0]); moved) return one(moved);
  if (is_any(n, {&kDotGeneral})) return one(dot(n, in));
  if (is_any(n, {&kGather})) return one(gathered(n, in));
  if (is_any(n, {&kScatter})) return one(scattered(n, in));
  if (is_any(n, {&kDynamicSlice, &kDynamicUpdateSlice})) return one(dynamic(n, in));
  if (is_any(n, {&kShardingConstraint})) return one(constrained(n, plain[0]));
  if (is_any(n, {&kSort})) {
    Attributes attributes = n.attributes;
    attributes.set("axis", n.attributes.get<int64_t>("axis") + 1);
    return added(n, spread_all(in), std::move(attributes));
  }
  if (is_any(n, {&kTriangularSolve})) return added(n, spread_all(in), n.attributes);
  if (is_any(n, {&kBroadcastInDim, &kConcatenate, &kPad, &kReduce, &kReshape, &kReverse, &kSlice,
                 &kTranspose})) {
    return one(shaped(n, in));
  }
  if (!is_pointwise(n)) not_known(n, "");
  // A number of each part goes to all elements of the part.
  Values operands = spread_all(in);
  for (Value& v : operands) {
    Dims dims = prefixed(n.results[0].dims, parts_);
    if (v.rank() == 1 && dims.size() > 1) v = broadcast_in_dim(v, dims, {0});
  }
  return added(n, std::move(operands), n.attributes);
}

Value Batching::shaped(const Node& n, const std::vector<PartValue>& in) {
  Value x = spread(in[0]);
  const Attributes& a = n.attributes;
  Dims dims = prefixed(n.results[0].dims, parts_);
  if (is_any(n, {&kReshape})) return reshape(x, dims);
  if (is_any(n, {&kBroadcastInDim})) {
    return broadcast_in_dim(x, dims, shifted_with_first(a.get<Dims>("axes")));
  }
  if (is_any(n, {&kTranspose})) {
    return transpose(x, shifted_with_first(a.get<Dims>("permutation")));
  }
  if (is_any(n, {&kReverse})) return reverse(x, shifted(a.get<Dims>("axes")));
  if (is_any(n, {&kConcatenate})) {
    return concatenate(spread_all(in), a.get<int64_t>("axis") + 1);
  }
  if (is_any(n, {&kSlice})) {
    return slice(x, prefixed(a.get<Dims>("start"), 0), prefixed(a.get<Dims>("limit"), parts_),
                 prefixed(a.get<Dims>("strides"), 1));
  }
  if (in[1].split) not_known(n, " with another start on each part");
  if (is_any(n, {&kPad})) {
    return pad(x, in[1].value, prefixed(a.get<Dims>("low"), 0), prefixed(a.get<Dims>("high"), 0),
               prefixed(a.get<Dims>("interior"), 0));
  }
  Attributes attributes = a;
  attributes.set("axes", shifted(a.get<Dims>("axes")));
  return added(n, {x, in[1].value}, std::move(attributes))[0].value;
}

// What only one side has of the parts is a free dim of that side: no part's weights are copied.
Value Batching::dot(const Node& n, const std::vector<PartValue>& in) {
  auto dims = [&](const char* name) { return n.attributes.get<Dims>(name); };
  DotDims d{dims("lhs_batch"), dims("rhs_batch"), dims("lhs_contract"), dims("rhs_contract")};
  DType type = n.results[0].dtype;
  bool alone = d.lhs_batch.empty();
  if (alone && !in[1].split) {
    d.lhs_contract = shifted(d.lhs_contract);
    return dot_general(in[0].value, in[1].value, d, type);
  }
  if (alone && !in[0].split) {
    d.rhs_contract = shifted(d.rhs_contract);
    Value y = dot_general(in[0].value, in[1].value, d, type);
    auto at = in[0].value.rank() - static_cast<int64_t>(d.lhs_contract.size());
    Dims order(y.dims().size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + at, order.begin() + at + 1);
    return transpose(y, order);
  }
  return dot_general(spread(in[0]), spread(in[1]),
                     {shifted_with_first(d.lhs_batch), shifted_with_first(d.rhs_batch),
                      shifted(d.lhs_contract), shifted(d.rhs_contract)},
                     type);
}

Value Batching::gathered(const Node& n, const std::vector<PartValue>& in) {
  auto dims = [&](const char* name) { return n.attributes.get<Dims>(name); };
  GatherDims d{.offset = shifted(dims("offset")),
               .collapsed = dims("collapsed"),
               .start_index_map = dims("start_index_map"),
               .index_vector = n.attributes.get<int64_t>("index_vector"),
               .operand_batch = dims("operand_batch"),
               .indices_batch = dims("indices_batch")};
  Dims sizes = dims("slice_sizes");
  if (in[1].split) {
    ++d.index_vector;
    d.indices_batch = shifted(d.indices_batch);
  } else {
    d.offset = prefixed(d.offset, 0);  // whole along the parts
    sizes = prefixed(sizes, parts_);
  }
  if (in[0].split) {
    d.collapsed = shifted(d.collapsed);
    d.start_index_map = shifted(d.start_index_map);
    d.operand_batch = shifted(d.operand_batch);
  }
  if (in[0].split && in[1].split) {
    d.operand_batch = prefixed(d.operand_batch, 0);
    d.indices_batch = prefixed(d.indices_batch, 0);
    sizes = prefixed(sizes, 1);
  }
  return gather(in[0].value, in[1].value, d, sizes);
}

Value Batching::scattered(const Node& n, const std::vector<PartValue>& in) {
  Attributes a = n.attributes;
  auto dims = [&](const char* name) { return n.attributes.get<Dims>(name); };
  for (const char* name : {"offset", "collapsed", "start_index_map"}) {
    a.set(name, shifted(dims(name)));
  }
  a.set("index_vector", n.attributes.get<int64_t>("index_vector") + 1);
  for (const char* name : {"operand_batch", "indices_batch"}) {
    a.set(name, shifted_with_first(dims(name)));
  }
  return added(n, spread_all(in), std::move(a))[0].value;
}

Value Batching::dynamic(const Node& n, const std::vector<PartValue>& in) {
  size_t arrays = is_any(n, {&kDynamicSlice}) ? 1 : 2;
  Values operands;
  for (size_t i = 0; i < arrays; ++i) operands.push_back(spread(in[i]));
  DType type = in.size() > arrays ? in[arrays].value.dtype() : DType::i32;
  operands.push_back(scalar(f_, type, 0));
  for (size_t i = arrays; i < in.size(); ++i) {
    if (in[i].split) not_known(n, " with another start on each part");
    operands.push_back(in[i].value);
  }
  Attributes a = n.attributes;
  if (arrays == 1) a.set("sizes", prefixed(a.get<Dims>("sizes"), parts_));
  return added(n, std::move(operands), std::move(a))[0].value;
}

Value Batching::constrained(const Node& n, Value x) {
  std::string text = n.attributes.get<std::string>("sharding");
  size_t at = text.find('[') + 1;
  text.insert(at, text[at] == ']' ? axes_text_ : axes_text_ + ", ");
  return sharding_constraint(x, text);
}

// ---- Bodies -------------------------------------------------------------------------------------

// Which results of a body depend on the parts, if these arguments do.
Batching::Flags Batching::flags_of(const ir::Region& body, const Flags& arguments) const {
  std::unordered_map<Value, bool, ir::ValueHash> split;
  for (size_t i = 0; i < arguments.size(); ++i) split[body.params[i]] = arguments[i];
  for (Node* n : ir::post_order(body.results, &body)) {
    if (n->def == &ir::kParameter) continue;
    Flags in;
    for (const Value& v : n->operands) in.push_back(split.at(v));
    Flags out(n->results.size(), std::find(in.begin(), in.end(), true) != in.end());
    if (is_any(*n, {&kWhile})) out = loop_flags(*n, in);
    if (is_any(*n, {&kOptimizationBarrier})) out = in;
    for (size_t i = 0; i < out.size(); ++i) split[n->result(static_cast<int>(i))] = out[i];
  }
  Flags results;
  for (const Value& v : body.results) results.push_back(split.at(v));
  return results;
}

// What a loop carries depends on the parts as soon as one step's result does.
Batching::Flags Batching::loop_flags(const Node& n, Flags flags) const {
  for (;;) {
    Flags after = flags_of(*n.regions[1], flags);
    for (size_t i = 0; i < flags.size(); ++i) after[i] = after[i] || flags[i];
    if (after == flags) return flags;
    flags = std::move(after);
  }
}

std::unique_ptr<ir::Region> Batching::region(const ir::Region& body,
                                             const std::vector<PartValue>& like,
                                             const Flags& arguments, const Flags& results) {
  ir::RegionScope scope(f_);
  std::vector<PartValue> in;
  for (size_t i = 0; i < arguments.size(); ++i) {
    Type type = body.params[i].type();
    if (arguments[i]) type.dims = prefixed(type.dims, parts_);
    in.push_back({scope.parameter(type), arguments[i]});
  }
  invariant(like.size() == arguments.size(), "ops.on_parts_region", "one value for each parameter");
  Values out;
  std::vector<PartValue> values = run(body, in);
  for (size_t i = 0; i < values.size(); ++i) {
    out.push_back(results[i] ? spread(values[i]) : values[i].value);
  }
  Values captured = scope.close(std::move(out));
  invariant(captured.empty(), "ops.on_parts_open", "a closed body");
  return scope.take();
}

std::vector<PartValue> Batching::loop(const Node& n, const std::vector<PartValue>& in) {
  Flags flags;
  for (const PartValue& v : in) flags.push_back(v.split);
  flags = loop_flags(n, std::move(flags));
  if (flags_of(*n.regions[0], flags)[0]) not_known(n, " of another length on each part");
  Values operands;
  for (size_t i = 0; i < in.size(); ++i) {
    operands.push_back(flags[i] ? spread(in[i]) : in[i].value);
  }
  std::vector<std::unique_ptr<ir::Region>> regions;
  regions.push_back(region(*n.regions[0], in, flags, {false}));
  regions.push_back(region(*n.regions[1], in, flags, flags));
  Node& out = f_.add(kWhile, std::move(operands), n.attributes, std::move(regions));
  std::vector<PartValue> values;
  for (size_t i = 0; i < flags.size(); ++i) {
    values.push_back({out.result(static_cast<int>(i)), flags[i]});
  }
  return values;
}

std::vector<PartValue> Batching::branches(const Node& n, const std::vector<PartValue>& in) {
  if (in[0].split) not_known(n, " with another choice on each part");
  std::vector<PartValue> rest(in.begin() + 1, in.end());
  Flags flags;
  Values operands{in[0].value};
  for (const PartValue& v : rest) {
    flags.push_back(v.split);
    operands.push_back(v.value);
  }
  Flags results = flags_of(*n.regions[0], flags), other = flags_of(*n.regions[1], flags);
  for (size_t i = 0; i < results.size(); ++i) results[i] = results[i] || other[i];
  std::vector<std::unique_ptr<ir::Region>> regions;
  for (const auto& r : n.regions) regions.push_back(region(*r, rest, flags, results));
  Node& out = f_.add(kIf, std::move(operands), n.attributes, std::move(regions));
  std::vector<PartValue> values;
  for (size_t i = 0; i < results.size(); ++i) {
    values.push_back({out.result(static_cast<int>(i)), results[i]});
  }
  return values;
}

}  // namespace strata::ops
