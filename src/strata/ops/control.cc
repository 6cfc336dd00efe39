#include "strata/ops/control.h"

#include <algorithm>

#include "strata/base/strings.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"

namespace strata::ops {
namespace {

using Regions = std::vector<std::unique_ptr<ir::Region>>;

constexpr std::string_view kPolicies[] = {"none", "dots", "full", "names", "offload"};

// Checks that a region's result types are `expected`.
void check_results(const Node& n, const ir::Region& region, std::span<const Type> expected,
                   std::string_view what) {
  bool same = region.results.size() == expected.size();
  std::string got, wanted;
  for (const Value& v : region.results) got += ir::text(v.type()) + " ";
  for (const Type& t : expected) wanted += ir::text(t) + " ";
  for (size_t i = 0; same && i < expected.size(); ++i) {
    same = region.results[i].type() == expected[i];
  }
  if (!same) misuse(n, std::string(what) + " of types " + wanted, got);
}

std::vector<Type> scan_shape(const Node& n) {
  ScanLayout s(n);
  const ir::Region& body = *n.regions[0];
  std::vector<Type> results;
  for (size_t i = 0; i < s.carries; ++i) results.push_back(n.operands[i].type());
  check_results(n,
                {nullptr,
                 {},
                 {body.results.begin(), body.results.begin() + static_cast<ptrdiff_t>(s.carries)}},
                results, "a carry that keeps its types:");
  for (size_t i = 0; i < s.xs; ++i) {
    const Value& x = n.operands[s.carries + i];
    if (x.rank() == 0 || x.dim(s.x_axes[i]) != s.length) {
      misuse(n,
             "inputs with " + std::to_string(s.length) + " steps on axis " +
                 std::to_string(s.x_axes[i]),
             ir::text(x.type()));
    }
  }
  for (size_t i = 0; i < s.ys; ++i) {
    results.push_back(stacked(body.results[s.carries + i].type(), s.length, s.y_axes[i]));
  }
  return results;
}

// What the loop of a scan starts from: carries, xs, constants, y buffers, the step.
Values first_state(Function& f, const ScanLayout& s, const ir::Region& body,
                   std::span<const Value> operands) {
  Values state(operands.begin(), operands.end());
  for (size_t i = 0; i < s.xs; ++i) {
    Value& x = state[s.carries + i];
    x = in_parts(x, s.x_axes[i], s.x_parts[i]);
  }
  for (size_t i = 0; i < s.ys; ++i) {
    Type t = stacked(body.results[s.carries + i].type(), s.length, s.y_axes[i]);
    state.push_back(in_parts(full(f, t.dtype, t.dims, 0), s.y_axes[i], s.y_parts[i]));
  }
  state.push_back(scalar(f, DType::i32, 0));
  return state;
}

// The body slices its inputs and updates the outputs in place.
Values lower_scan(Node& n, std::span<const Value> operands) {
  ScanLayout s(n);
  Function& f = operands.empty() ? *n.function : operands[0].function();
  const ir::Region& body = *n.regions[0];
  Values state = first_state(f, s, body, operands), out = state;
  if (s.length > 0) {
    out = while_loop(
        f, state,
        [&](const Values& v) {
          return compare(v.back(), scalar(f, DType::i32, static_cast<double>(s.length)), "LT");
        },
        [&](const Values& v) {
          Value step = v.back();
          Value index = s.reverse ? static_cast<double>(s.length - 1) - step : step;
          Values arguments{index};
          for (size_t i = 0; i < operands.size(); ++i) {
            size_t x = i - s.carries;
            bool is_x = i >= s.carries && x < s.xs;
            arguments.push_back(is_x ? read_step(v[i], index, s.x_axes[x], s.x_parts[x]) : v[i]);
          }
          Values results = ir::inline_region(f, body, arguments);
          Values next = v;
          std::copy_n(results.begin(), s.carries, next.begin());
          for (size_t i = 0; i < s.ys; ++i) {
            Value& y = next[operands.size() + i];
            y = write_step(y, results[s.carries + i], index, s.y_axes[i], s.y_parts[i]);
          }
          next.back() = step + 1.0;
          return next;
        });
  }
  Values results(out.begin(), out.begin() + static_cast<ptrdiff_t>(s.carries));
  for (size_t i = 0; i < s.ys; ++i) {
    results.push_back(in_whole(out[operands.size() + i], s.y_axes[i], s.y_parts[i]));
  }
  return results;
}

std::vector<Type> call_shape(const Node& n) {
  std::vector<Type> types;
  for (const Value& v : n.regions[0]->results) types.push_back(v.type());
  return types;
}

std::vector<Type> if_shape(const Node& n) {
  if (n.operands[0].type() != Type{DType::pred, {}}) {
    misuse(n, "a rank-0 predicate", ir::text(n.operands[0].type()));
  }
  std::vector<Type> types = call_shape(n);
  check_results(n, *n.regions[1], types, "two branches");
  return types;
}

std::vector<Type> while_shape(const Node& n) {
  std::vector<Type> types;
  for (const Value& v : n.operands) types.push_back(v.type());
  std::vector<Type> pred{{DType::pred, {}}};
  check_results(n, *n.regions[0], pred, "a condition");
  check_results(n, *n.regions[1], types, "a body");
  return types;
}

// Traces `body` over parameters of the given types; returns the captured outer values.
Values trace(ir::RegionScope& scope, const Values& like, const Body& body) {
  Values params;
  for (const Value& v : like) params.push_back(scope.parameter(v.type()));
  return scope.close(body(params));
}

// Parameters that stand for operands a region does not use, so that two regions of one op share
// one operand list.
Values unused_parameters(Function& f, ir::Region& region, const Values& like) {
  ir::RegionScope scope(f);
  Values params;
  for (const Value& v : like) params.push_back(scope.parameter(v.type()));
  for (const Value& p : params) p.node->home = &region;
  // The nodes outlive the scope: the function owns them.
  return params;
}

void append(Values& to, const Values& from) { to.insert(to.end(), from.begin(), from.end()); }

// As attributes, which hold no lists of records.
void set_parts(Attributes& a, const std::string& name, const std::vector<StackParts>& parts) {
  Dims counts;
  std::vector<std::string> shardings;
  for (const StackParts& p : parts) {
    counts.push_back(p.parts);
    shardings.push_back(p.sharding);
  }
  a.set(name, counts);
  a.set(name + "_sharding", shardings);
}

std::vector<StackParts> parts_of(const Node& n, const std::string& name, size_t count) {
  const auto& counts = n.attributes.get<Dims>(name);
  const auto& shardings = n.attributes.get<std::vector<std::string>>(name + "_sharding");
  std::vector<StackParts> parts(count);
  for (size_t i = 0; i < counts.size(); ++i) parts[i] = {counts[i], shardings[i]};
  return parts;
}

Attributes remat_attributes(const Remat& remat) {
  Attributes a;
  a.set("remat", std::string(kPolicies[static_cast<size_t>(remat.policy)]));
  a.set("remat_names", remat.names);
  return a;
}

}  // namespace

ScanLayout::ScanLayout(const Node& n)
    : length(n.attributes.get<int64_t>("length")),
      reverse(n.attributes.get<bool>("reverse")),
      carries(static_cast<size_t>(n.attributes.get<int64_t>("carries"))),
      xs(static_cast<size_t>(n.attributes.get<int64_t>("xs"))),
      constants(n.operands.size() - carries - xs),
      ys(n.regions[0]->results.size() - carries),
      x_axes(n.attributes.get<Dims>("x_axes")),
      y_axes(n.attributes.get<Dims>("y_axes")),
      x_parts(parts_of(n, "x_parts", xs)),
      y_parts(parts_of(n, "y_parts", ys)) {}

constexpr OpDef kScan{
    .name = "scan",
    .arity = -1,
    .shape = scan_shape,
    .gradient = ir::RegionGradient,
    .lower = lower_scan,
};

constexpr OpDef kCall{
    .name = "call",
    .arity = -1,
    .shape = call_shape,
    .gradient = ir::RegionGradient,
    .lower = [](Node& n, std::span<const Value> operands) -> Values {
      Function& f = operands.empty() ? *n.function : operands[0].function();
      return ir::inline_region(f, *n.regions[0], operands);
    },
};

constexpr OpDef kIf{
    .name = "if",
    .arity = -1,
    .shape = if_shape,
    .gradient = ir::RegionGradient,
    .region_captures = true,
};

constexpr OpDef kWhile{
    .name = "while",
    .arity = -1,
    .shape = while_shape,
    .gradient = NoRuleYet,
};

Type stacked(const Type& type, int64_t length, int64_t axis) {
  Type out = type;
  out.dims.insert(out.dims.begin() + std::min(axis, type.rank()), length);
  return out;
}

Remat parse_remat(const std::string& text) {
  for (size_t i = 0; i < 3; ++i) {
    if (text == kPolicies[i]) return {static_cast<Remat::Policy>(i), {}};
  }
  for (size_t i = 3; i < 5; ++i) {
    std::string prefix = std::string(kPolicies[i]) + ":";
    if (text.starts_with(prefix) && text.size() > prefix.size()) {
      return {static_cast<Remat::Policy>(i), split(text.substr(prefix.size()), ',')};
    }
  }
  fail({.id = "ops.remat_policy",
        .where = "remat",
        .expected = "none, dots, full, names:TAG,TAG or offload:TAG,TAG",
        .got = "'" + text + "'"});
}

std::string text_of(const Remat& remat) {
  std::string text(kPolicies[static_cast<size_t>(remat.policy)]);
  return remat.names.empty() ? text : text + ":" + join(remat.names, ",");
}

Remat remat_of(const Node& n) {
  const std::string& name = n.attributes.get<std::string>("remat");
  auto at = std::find(std::begin(kPolicies), std::end(kPolicies), name) - std::begin(kPolicies);
  return {static_cast<Remat::Policy>(at),
          n.attributes.get<std::vector<std::string>>("remat_names")};
}

Node& scan_node(Function& f, Values operands, size_t carries, size_t xs, const ScanOptions& options,
                std::unique_ptr<ir::Region> body) {
  Attributes a = remat_attributes(options.remat);
  a.set("length", options.length);
  a.set("reverse", options.reverse);
  a.set("carries", static_cast<int64_t>(carries));
  a.set("xs", static_cast<int64_t>(xs));
  a.set("x_axes", options.x_axes);
  a.set("y_axes", options.y_axes);
  set_parts(a, "x_parts", options.x_parts);
  set_parts(a, "y_parts", options.y_parts);
  Regions regions;
  regions.push_back(std::move(body));
  return f.add(kScan, std::move(operands), std::move(a), std::move(regions));
}

Step scan(Function& f, const Values& carry, const Values& xs, const ScanOptions& options,
          const ScanBody& body) {
  ScanOptions o = options;
  if (o.x_axes.empty()) o.x_axes = Dims(xs.size(), 0);
  ir::RegionScope scope(f);
  Value index = scope.parameter({DType::i32, {}});
  Values carried, slices;
  for (const Value& c : carry) carried.push_back(scope.parameter(c.type()));
  for (size_t i = 0; i < xs.size(); ++i) {
    int64_t axis = normal_axis(o.x_axes[i], xs[i].rank(), "scan");
    o.x_axes[i] = axis;
    slices.push_back(scope.parameter({xs[i].dtype(), without(xs[i].dims(), {axis})}));
  }
  Step step = body(index, carried, slices);
  size_t ys = step.ys.size();
  if (o.y_axes.empty()) o.y_axes = Dims(ys, 0);
  for (size_t i = 0; i < ys; ++i) o.y_axes[i] = std::min(o.y_axes[i], step.ys[i].rank());
  if (step.carry.size() != carry.size()) {
    fail({.id = "ops.scan",
          .where = "scan",
          .expected = std::to_string(carry.size()) + " carried values",
          .got = std::to_string(step.carry.size())});
  }
  Values results = step.carry;
  append(results, step.ys);
  Values captured = scope.close(std::move(results));
  Values operands = carry;
  append(operands, xs);
  append(operands, captured);
  Node& n = scan_node(f, std::move(operands), carry.size(), xs.size(), o, scope.take());
  Step out;
  for (size_t i = 0; i < carry.size() + ys; ++i) {
    (i < carry.size() ? out.carry : out.ys).push_back(n.result(static_cast<int>(i)));
  }
  return out;
}

namespace {

Values all_results(Node& n, size_t count) {
  Values out;
  for (size_t i = 0; i < count; ++i) out.push_back(n.result(static_cast<int>(i)));
  return out;
}

}  // namespace

Values call(Function& f, const Values& inputs, const Remat& remat, const Body& body) {
  ir::RegionScope scope(f);
  Values operands = inputs;
  append(operands, trace(scope, inputs, body));
  Regions regions;
  regions.push_back(scope.take());
  Node& n = f.add(kCall, std::move(operands), remat_attributes(remat), std::move(regions));
  return all_results(n, n.results.size());
}

Values if_(Value pred, const std::function<Values()>& then,
           const std::function<Values()>& otherwise) {
  Function& f = pred.function();
  Regions regions;
  Values captured[2];
  for (int i = 0; i < 2; ++i) {
    ir::RegionScope scope(f);
    captured[i] = scope.close(i == 0 ? then() : otherwise());
    regions.push_back(scope.take());
  }
  append(regions[0]->params, unused_parameters(f, *regions[0], captured[1]));
  Values second = unused_parameters(f, *regions[1], captured[0]);
  append(second, regions[1]->params);
  regions[1]->params = std::move(second);
  Values operands{pred};
  append(operands, captured[0]);
  append(operands, captured[1]);
  Node& n = f.add(kIf, std::move(operands), {}, std::move(regions));
  return all_results(n, n.results.size());
}

Values while_loop(Function& f, const Values& carry,
                  const std::function<Value(const Values&)>& condition, const Body& body) {
  Regions regions;
  Values captured[2];
  for (int i = 0; i < 2; ++i) {
    ir::RegionScope scope(f);
    captured[i] = trace(scope, carry,
                        [&](const Values& v) { return i == 0 ? Values{condition(v)} : body(v); });
    regions.push_back(scope.take());
  }
  append(regions[0]->params, unused_parameters(f, *regions[0], captured[1]));
  ir::Region& loop = *regions[1];
  Values between = unused_parameters(f, loop, captured[0]);
  loop.params.insert(loop.params.begin() + static_cast<ptrdiff_t>(carry.size()), between.begin(),
                     between.end());
  // What is captured passes through the loop unchanged.
  loop.results.insert(loop.results.end(),
                      loop.params.begin() + static_cast<ptrdiff_t>(carry.size()),
                      loop.params.end());
  Values operands = carry;
  append(operands, captured[0]);
  append(operands, captured[1]);
  Node& n = f.add(kWhile, std::move(operands), {}, std::move(regions));
  return all_results(n, carry.size());
}

}  // namespace strata::ops
