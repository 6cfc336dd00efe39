#include "strata/ops/misc.h"

#include "strata/ops/rules.h"

namespace strata::ops {
namespace {

using Cotangents = std::span<const Value>;

// The compiler's own target: it moves the value and removes the call.
constexpr std::string_view kPlaceTarget = "annotate_device_placement";

Values results_of(Node& node) {
  Values out;
  for (size_t i = 0; i < node.results.size(); ++i) out.push_back(node.result(static_cast<int>(i)));
  return out;
}

Values barrier_gradient(Node&, Cotangents c) {
  Values present;
  for (const Value& v : c) {
    if (v) present.push_back(v);
  }
  present = optimization_barrier(present);
  Values out(c.size());
  size_t at = 0;
  for (size_t i = 0; i < c.size(); ++i) {
    if (c[i]) out[i] = present[at++];
  }
  return out;
}

// The types in three flat lists, since attributes hold no types: dtypes, ranks and all dims.
std::vector<Type> custom_call_results(const Node& n) {
  const Dims& dtypes = n.attributes.get<Dims>("dtypes");
  const Dims& ranks = n.attributes.get<Dims>("ranks");
  auto dim = n.attributes.get<Dims>("dims").begin();
  std::vector<Type> out;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    out.push_back({static_cast<DType>(dtypes[i]), Dims(dim, dim + ranks[i])});
    dim += ranks[i];
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

AttributeTexts print_custom_call(const Node& n) {
  int64_t version = n.attributes.get<int64_t>("api_version");
  const std::string& config = n.attributes.get<std::string>("backend_config");
  AttributeTexts out{
      {"call_target_name", quoted(n.attributes.get<std::string>("target"))},
      {"has_side_effect", n.attributes.get<bool>("has_side_effect") ? "true" : "false"},
      {"api_version", std::to_string(version) + " : i32"}};
  if (!config.empty()) out.emplace_back("backend_config", version == 4 ? config : quoted(config));
  const std::string& frontend = n.attributes.get<std::string>("frontend_attributes");
  if (!frontend.empty()) out.emplace_back("mhlo.frontend_attributes", frontend);
  return out;
}

Value place_call(Value x, const std::string& frontend_attributes) {
  return custom_call({x}, {.target = std::string(kPlaceTarget),
                           .results = {x.type()},
                           .has_side_effect = true,
                           .frontend_attributes = frontend_attributes})[0];
}

}  // namespace

constexpr OpDef kCustomCall{
    .name = "custom_call",
    .arity = -1,
    .shape = custom_call_results,
    .gradient = NoRuleYet,
    .print = print_custom_call,
};

constexpr OpDef kOptimizationBarrier{
    .name = "optimization_barrier",
    .arity = -1,
    .shape = [](const Node& n) -> std::vector<Type> {
      std::vector<Type> out;
      for (const Value& v : n.operands) out.push_back(v.type());
      return out;
    },
    .gradient = ir::rule(barrier_gradient),
};

constexpr OpDef kPlacement{
    .name = "placement",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> { return {n.operands[0].type()}; },
    .gradient = ir::rule([](Node&, Cotangents c) -> Values { return {c[0]}; }),
    .lower = [](Node& n, std::span<const Value> x) -> Values {
      std::string kind = quoted(n.attributes.get<std::string>("kind"));
      return {place_call(x[0], "{_xla_buffer_placement = " + kind + "}")};
    },
};

constexpr OpDef kShardingConstraint{
    .name = "sharding_constraint",
    .arity = 1,
    .shape = [](const Node& n) -> std::vector<Type> { return {n.operands[0].type()}; },
    .gradient = ir::rule([](Node& n, Cotangents c) -> Values {
      return {sharding_constraint(c[0], n.attributes.get<std::string>("sharding"))};
    }),
    .print = [](const Node& n) -> AttributeTexts {
      return {{"sharding", n.attributes.get<std::string>("sharding")}};
    },
    .cost = Cost::free,
    .dialect = "sdy",
};

Values optimization_barrier(const Values& values) {
  if (values.empty()) return {};
  return results_of(values[0].function().add(kOptimizationBarrier, values));
}

Value sharding_constraint(Value x, std::string_view sharding) {
  return emit(kShardingConstraint, {x}, {{"sharding", std::string(sharding)}});
}

Value placed(Value x, std::string_view kind) {
  return emit(kPlacement, {x}, {{"kind", std::string(kind)}});
}

Value placed_like(const Node& n, Value x) {
  bool places = n.def == &kCustomCall && n.attributes.get<std::string>("target") == kPlaceTarget;
  return places ? place_call(x, n.attributes.get<std::string>("frontend_attributes")) : Value{};
}

Values custom_call(const Values& operands, const CustomCall& call) {
  if (operands.empty() || call.target.empty()) {
    fail({.id = "ops.custom_call",
          .where = "custom_call",
          .expected = "a target and at least one operand",
          .got =
              "target '" + call.target + "' and " + std::to_string(operands.size()) + " operands"});
  }
  Dims dtypes, ranks, dims;
  for (const Type& t : call.results) {
    dtypes.push_back(static_cast<int64_t>(t.dtype));
    ranks.push_back(t.rank());
    dims.insert(dims.end(), t.dims.begin(), t.dims.end());
  }
  return results_of(
      operands[0].function().add(kCustomCall, operands,
                                 {{"target", call.target},
                                  {"backend_config", call.backend_config},
                                  {"api_version", static_cast<int64_t>(call.api_version)},
                                  {"has_side_effect", call.has_side_effect},
                                  {"frontend_attributes", call.frontend_attributes},
                                  {"dtypes", dtypes},
                                  {"ranks", ranks},
                                  {"dims", dims}}));
}

}  // namespace strata::ops
