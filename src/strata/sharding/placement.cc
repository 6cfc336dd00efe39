#include "strata/sharding/placement.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::sharding {
namespace {

bool known(const Mesh& mesh, const std::vector<std::string>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](const std::string& a) { return mesh.has(a); });
}

bool has_rule(const std::vector<Rule>& rules, const std::string& name) {
  return std::any_of(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == name; });
}

// The first of the given specs that speaks of `name`; null when none does.
const SpecRule* spec_for(const std::vector<SpecRule>& specs, const std::string& name) {
  for (const SpecRule& s : specs) {
    if (glob_matches(s.glob, name)) return &s;
  }
  return nullptr;
}

void check_specs(const std::vector<SpecRule>& specs, const Manifest& manifest) {
  for (const SpecRule& s : specs) {
    bool used = std::any_of(manifest.slots().begin(), manifest.slots().end(),
                            [&](const Slot& slot) { return glob_matches(s.glob, slot.name); });
    require(used, {.id = "sharding.spec_unmatched",
                   .where = "sharding spec '" + s.glob + "'",
                   .expected = "a parameter of this name",
                   .got = "none",
                   .cure = "strata plan lists the names",
                   .code = Code::not_found});
  }
}

std::vector<std::string> axes_of(const std::vector<Rule>& rules) {
  std::vector<std::string> out;
  for (const Rule& rule : rules) {
    for (const auto& axes : rule.candidates) out.insert(out.end(), axes.begin(), axes.end());
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// An axis of which neither rules nor specs speak would split nothing: all its devices would compute
// the same, silently.
void check_axes(const PlacementOptions& options, const std::vector<Rule>& family) {
  std::vector<Rule> rules = options.rules;
  rules.insert(rules.end(), family.begin(), family.end());
  const std::vector<std::string> named = axes_of(rules);
  std::vector<std::string> used = named;
  for (const SpecRule& s : options.specs) {
    for (const auto& axes : s.spec.dims) used.insert(used.end(), axes.begin(), axes.end());
  }
  for (const MeshAxis& axis : options.mesh.axes()) {
    if (axis.size == 1 || std::find(used.begin(), used.end(), axis.name) != used.end()) continue;
    std::string near = nearest(axis.name, named);
    fail({.id = "sharding.axis_without_rule",
          .where = "mesh axis '" + axis.name + "'",
          .expected = "an axis that a rule or a spec names" +
                      (named.empty() ? "" : ", such as " + join(named, ", ")),
          .got = "one that would split nothing",
          .cure = near.empty() ? "Give it a rule (--shard 'NAME = " + axis.name + "')"
                               : "Did you mean '" + near + "'?"});
  }
}

// Dims that the spec leaves whole have no name while the rules are asked, so that they stay so.
Resolved resolve_given(const Slot& slot, const PartitionSpec& spec, const Placement& placement) {
  ParamType given = with_spec(slot.type, spec, placement.mesh, slot.name);
  ParamType asked = given;
  size_t entry = 0;
  for (Dim& dim : asked.dims) {
    if (dim.role != Role::none) continue;
    if (entry >= spec.dims.size() || spec.dims[entry].empty()) dim.name.clear();
    ++entry;
  }
  Resolved out = resolve(asked, placement.rules, placement.mesh, slot.name, placement.strict);
  for (size_t i = 0; i < given.dims.size(); ++i) out.type.dims[i].name = given.dims[i].name;
  return out;
}

}  // namespace

Placement place(const Manifest& manifest, const PlacementOptions& options,
                const std::vector<Rule>& family) {
  Placement out;
  out.mesh = options.mesh;
  out.strict = options.strict;
  out.rules = options.rules;
  for (Rule rule : family) {
    if (has_rule(options.rules, rule.name)) continue;
    std::erase_if(rule.candidates, [&](const auto& axes) { return !known(options.mesh, axes); });
    out.rules.push_back(std::move(rule));
  }
  check_specs(options.specs, manifest);
  check_axes(options, family);
  std::vector<Slot> slots = manifest.slots();
  for (Slot& slot : slots) {
    const SpecRule* given = spec_for(options.specs, slot.name);
    Resolved r = given == nullptr ? resolve(slot.type, out.rules, out.mesh, slot.name, out.strict)
                                  : resolve_given(slot, given->spec, out);
    slot.type = std::move(r.type);
    out.reasons.insert(out.reasons.end(), r.reasons.begin(), r.reasons.end());
  }
  out.manifest = Manifest(std::move(slots), manifest.ties(), manifest.plans());
  return out;
}

ParamType place_array(const Placement& placement, const ParamType& type, const std::string& path,
                      std::vector<std::string>& reasons) {
  ParamType wanted = type;
  for (Dim& dim : wanted.dims) {
    if (!has_rule(placement.rules, dim.name)) dim.name.clear();
  }
  Resolved resolved = resolve(wanted, placement.rules, placement.mesh, path, placement.strict);
  for (std::string& reason : resolved.reasons) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(std::move(reason));
    }
  }
  return resolved.type;
}

std::vector<Rule> decoder_rules() {
  return {{"layers", {{"layers"}}}, {"embed", {{"fsdp"}}},
          {"vocab", {{"tensor"}}},  {"mlp", {{"tensor"}}},
          {"heads", {{"tensor"}}},  {"kv_heads", {{"tensor"}}},
          {"head_dim", {}},         {"batch", {{"data", "fsdp"}, {"fsdp"}, {"data"}}}};
}

}  // namespace strata::sharding
