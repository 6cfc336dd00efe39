#include "strata/ops/parts.h"

#include <algorithm>

#include "strata/base/strings.h"
#include "strata/ops/batching.h"
#include "strata/ops/misc.h"
#include "strata/ops/rules.h"
#include "strata/ops/shape.h"
#include "strata/sharding/shardy.h"

namespace strata::ops {
namespace {

using Names = std::vector<std::string>;

[[noreturn]] void refuse(std::string expected, std::string got) {
  fail({.id = "ops.on_parts",
        .where = "on_parts",
        .expected = std::move(expected),
        .got = std::move(got)});
}

bool starts_with(const Names& dim, const Names& split) {
  return dim.size() >= split.size() && std::equal(split.begin(), split.end(), dim.begin());
}

// The dim that is cut into parts; -1 when none is.
int64_t split_dim(const DimAxes& axes, int64_t rank, const Names& split) {
  if (static_cast<int64_t>(axes.size()) != rank) {
    refuse("mesh axes for each of " + std::to_string(rank) + " dims",
           "for " + std::to_string(axes.size()));
  }
  int64_t found = -1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (starts_with(axes[i], split)) {
      found = static_cast<int64_t>(i);
      continue;
    }
    for (const std::string& axis : axes[i]) {
      if (std::find(split.begin(), split.end(), axis) == split.end()) continue;
      refuse("the axes " + join(split, ", ") + " together and at the head of one dim",
             join(axes[i], ", "));
    }
  }
  return found;
}

// The axes of each dim but those that split the batch.
DimAxes others(DimAxes axes, int64_t dim, const Names& split) {
  if (dim < 0) return axes;
  Names& mine = axes[static_cast<size_t>(dim)];
  mine.erase(mine.begin(), mine.begin() + static_cast<ptrdiff_t>(split.size()));
  return axes;
}

// Layouts as attributes, which hold no nested lists: axes joined by '+', dims by ','.
std::string packed(const DimAxes& axes) {
  std::string text;
  for (const Names& dim : axes) text += join(dim, "+") + ",";
  return text;
}

DimAxes unpacked(const std::string& text) {
  DimAxes axes;
  for (const std::string& dim : split(text, ',')) {
    axes.push_back(dim.empty() ? Names{} : split(dim, '+'));
  }
  axes.pop_back();  // what follows the last comma
  return axes;
}

std::vector<std::string> packed_all(const std::vector<DimAxes>& layouts) {
  std::vector<std::string> texts;
  for (const DimAxes& axes : layouts) texts.push_back(packed(axes));
  return texts;
}

std::string layout_text(const DimAxes& axes, const Names& split) {
  DimAxes all = axes;
  all.insert(all.begin(), split);
  return sharding::shardy_sharding(all);
}

// (…, parts · n, …) → (parts, …, n, …).
PartValue cut(Value x, const DimAxes& axes, const Names& split, int64_t parts) {
  int64_t dim = split_dim(axes, x.rank(), split);
  if (dim < 0) return {x, false};
  Dims dims = x.dims(), order;
  auto at = dims.begin() + dim;
  *at /= parts;
  dims.insert(at, parts);
  order.push_back(dim);
  for (int64_t i = 0; i <= x.rank(); ++i) {
    if (i != dim) order.push_back(i);
  }
  Value y = transpose(reshape(x, dims), order);
  return {sharding_constraint(y, layout_text(others(axes, dim, split), split)), true};
}

// The inverse of cut.
Value joined(Batching& batching, const PartValue& part, const DimAxes& axes, const Names& split,
             int64_t parts) {
  int64_t rank = part.value.rank() - (part.split ? 1 : 0);
  int64_t dim = split_dim(axes, rank, split);
  if (dim < 0) {
    if (part.split) refuse("a result that is the same on all parts", "one that is not");
    return part.value;
  }
  Value x =
      sharding_constraint(batching.spread(part), layout_text(others(axes, dim, split), split));
  Dims order, dims(x.dims().begin() + 1, x.dims().end());
  for (int64_t i = 1; i <= rank; ++i) {
    if (i == dim + 1) order.push_back(0);
    order.push_back(i);
  }
  dims[static_cast<size_t>(dim)] *= parts;
  return sharding_constraint(reshape(transpose(x, order), dims), sharding::shardy_sharding(axes));
}

Values lower_parts(Node& n, std::span<const Value> operands) {
  Function& f = *n.function;
  const auto& split = n.attributes.get<Names>("split");
  const auto& in = n.attributes.get<Names>("in");
  const auto& out = n.attributes.get<Names>("out");
  int64_t parts = n.attributes.get<int64_t>("parts");
  if (parts == 1) return ir::inline_region(f, *n.regions[0], operands);
  std::string text;
  for (const std::string& axis : split) text += (text.empty() ? "\"" : ", \"") + axis + "\"";
  Batching batching(f, parts, "{" + text + "}");
  std::vector<PartValue> arguments;
  for (size_t i = 0; i < operands.size(); ++i) {
    arguments.push_back(cut(operands[i], unpacked(in[i]), split, parts));
  }
  Values results;
  std::vector<PartValue> values = batching.run(*n.regions[0], arguments);
  for (size_t i = 0; i < values.size(); ++i) {
    results.push_back(joined(batching, values[i], unpacked(out[i]), split, parts));
  }
  return results;
}

std::vector<Type> parts_shape(const Node& n) {
  const auto& split = n.attributes.get<Names>("split");
  const auto& out = n.attributes.get<Names>("out");
  std::vector<Type> types;
  for (size_t i = 0; i < out.size(); ++i) {
    Type type = n.regions[0]->results[i].type();
    int64_t dim = split_dim(unpacked(out[i]), type.rank(), split);
    if (dim >= 0) type.dims[static_cast<size_t>(dim)] *= n.attributes.get<int64_t>("parts");
    types.push_back(std::move(type));
  }
  return types;
}

Type part_type(const Value& whole, const DimAxes& axes, const Names& split, int64_t parts) {
  Type part = whole.type();
  int64_t dim = split_dim(axes, part.rank(), split);
  if (dim < 0) return part;
  int64_t& size = part.dims[static_cast<size_t>(dim)];
  if (size % parts != 0) {
    refuse("dims that " + std::to_string(parts) + " parts divide", ir::text(whole.type()));
  }
  size /= parts;
  return part;
}

}  // namespace

constexpr OpDef kOnParts{
    .name = "on_parts",
    .arity = -1,
    .shape = parts_shape,
    .gradient = NoRuleYet,
    .lower = lower_parts,
};

Values on_parts(Function& f, const Values& inputs, const std::vector<DimAxes>& in,
                const std::vector<DimAxes>& out, const Names& split,
                const std::function<Values(const Values&)>& body) {
  if (split.empty() || in.size() != inputs.size()) {
    refuse("an axis, and the layout of each of " + std::to_string(inputs.size()) + " inputs",
           std::to_string(split.size()) + " axes, " + std::to_string(in.size()) + " layouts");
  }
  int64_t parts = f.mesh().axes_size(split, "on_parts");
  ir::RegionScope scope(f);
  Values mine;
  for (size_t i = 0; i < inputs.size(); ++i) {
    mine.push_back(scope.parameter(part_type(inputs[i], in[i], split, parts)));
  }
  Values results = body(mine);
  if (out.size() != results.size()) {
    refuse("the layout of each of " + std::to_string(results.size()) + " results",
           std::to_string(out.size()));
  }
  size_t captured = scope.close(std::move(results)).size();
  if (captured > 0) {
    refuse("a body that uses only its inputs", std::to_string(captured) + " outer values");
  }
  std::vector<std::unique_ptr<ir::Region>> regions;
  regions.push_back(scope.take());
  Node& n =
      f.add(kOnParts, inputs,
            {{"in", packed_all(in)}, {"out", packed_all(out)}, {"split", split}, {"parts", parts}},
            std::move(regions));
  Values values;
  for (size_t i = 0; i < n.results.size(); ++i) values.push_back(n.result(static_cast<int>(i)));
  return values;
}

}  // namespace strata::ops
