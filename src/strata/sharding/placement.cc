#include "strata/sharding/placement.h"

#include <algorithm>

namespace strata::sharding {
namespace {

bool known(const Mesh& mesh, const std::vector<std::string>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](const std::string& a) { return mesh.has(a); });
}

bool has_rule(const std::vector<Rule>& rules, const std::string& name) {
  return std::any_of(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == name; });
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
  ResolvedManifest resolved = resolve(manifest, out.rules, out.mesh, out.strict);
  out.manifest = std::move(resolved.manifest);
  out.reasons = std::move(resolved.reasons);
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
