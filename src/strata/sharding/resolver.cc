#include "strata/sharding/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/sharding/box.h"

namespace strata::sharding {
namespace {

const Rule* find_rule(const std::vector<Rule>& rules, const std::string& name) {
  for (const Rule& rule : rules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

[[noreturn]] void fail_unknown_name(const std::vector<Rule>& rules, const std::string& name,
                                    const std::string& where) {
  std::vector<std::string> known;
  for (const Rule& rule : rules) known.push_back(rule.name);
  std::string near = nearest(name, known);
  fail({.id = "sharding.unknown_name",
        .where = where,
        .expected = known.empty() ? "a rule for its logical name (there are no rules)"
                                  : "a logical name with a rule, one of " + join(known, ", "),
        .got = "'" + name + "'",
        .cure = near.empty() ? "" : "Did you mean '" + near + "'?",
        .code = Code::not_found});
}

// Why a candidate cannot be had; empty when it can.
std::string obstacle(const std::vector<std::string>& axes, const Dim& dim, const Mesh& mesh,
                     const std::set<std::string>& used) {
  for (const std::string& axis : axes) {
    if (used.count(axis) > 0) return axis + " is taken by another dim";
  }
  int64_t parts = mesh.axes_size(axes);
  // A dim without elements divides by everything and has nothing to share out.
  if (dim.size > 0 && dim.size % parts == 0) return "";
  return fmt::format("{} ({}) does not divide it", fmt::join(axes, "+"), parts);
}

struct Choice {
  std::vector<std::string> axes;
  std::string reason;
};

Choice choose(const Rule& rule, const Dim& dim, const Mesh& mesh,
              const std::set<std::string>& used) {
  std::string reason;
  for (const std::vector<std::string>& candidate : rule.candidates) {
    std::string why = obstacle(candidate, dim, mesh, used);
    if (why.empty()) return {candidate, ""};
    reason += why + "; ";
  }
  return {{}, reason.empty() ? "" : reason + "replicated"};
}

}  // namespace

Rule parse_rule(std::string_view text) {
  size_t equals = text.find('=');
  std::string name(trim(text.substr(0, equals)));
  auto refuse = [&](const std::string& got) {
    fail({.id = "sharding.rule",
          .where = "sharding rule '" + std::string(text) + "'",
          .expected = "name = axis, axis+axis",
          .got = got});
  };
  if (equals == std::string_view::npos || name.empty()) refuse("'" + std::string(text) + "'");
  Rule rule{name, {}};
  std::string_view wishes = trim(text.substr(equals + 1));
  if (wishes.empty()) return rule;
  for (const std::string& wish : split(wishes, ',')) {
    std::vector<std::string> axes;
    for (const std::string& axis : split(wish, '+')) {
      axes.emplace_back(trim(axis));
      if (axes.back().empty()) refuse("an empty axis in '" + wish + "'");
    }
    rule.candidates.push_back(std::move(axes));
  }
  return rule;
}

void check_rules(const std::vector<Rule>& rules, const Mesh& mesh) {
  std::set<std::string_view> names;
  for (const Rule& rule : rules) {
    std::string where = "sharding rule '" + rule.name + "'";
    require(names.insert(rule.name).second, {.id = "sharding.rule_twice",
                                             .where = where,
                                             .expected = "one rule for each logical name",
                                             .got = "two"});
    for (const std::vector<std::string>& candidate : rule.candidates) {
      mesh.axes_size(candidate, where);
      std::set<std::string_view> axes(candidate.begin(), candidate.end());
      require(axes.size() == candidate.size(), {.id = "sharding.rule_axis_twice",
                                                .where = where,
                                                .expected = "each axis once in a candidate",
                                                .got = join(candidate, "+")});
    }
  }
}

Resolved resolve(const ParamType& type, const std::vector<Rule>& rules, const Mesh& mesh,
                 const std::string& path, bool strict) {
  check_rules(rules, mesh);
  check_layout(type, mesh, path);
  Resolved out{type, {}};
  std::set<std::string> used;
  for (const Dim& dim : type.dims) used.insert(dim.axes.begin(), dim.axes.end());
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const Dim& dim = type.dims[i];
    if (!dim.axes.empty() || dim.name.empty()) continue;
    std::string where = fmt::format("{}, dim {} '{}' ({})", path, i, dim.name, dim.size);
    const Rule* rule = find_rule(rules, dim.name);
    if (rule == nullptr && dim.role != Role::none) continue;
    if (rule == nullptr) fail_unknown_name(rules, dim.name, where);
    Choice choice = choose(*rule, dim, mesh, used);
    used.insert(choice.axes.begin(), choice.axes.end());
    out.type.dims[i].axes = std::move(choice.axes);
    if (choice.reason.empty()) continue;
    require(!strict, {.id = "sharding.strict",
                      .where = where,
                      .expected = "one of the mesh axes its rule asks for",
                      .got = choice.reason,
                      .cure = "Change the mesh or the rule, or turn strict off",
                      .code = Code::failed_precondition});
    out.reasons.push_back(where + ": " + choice.reason);
  }
  return out;
}

ResolvedManifest resolve(const Manifest& manifest, const std::vector<Rule>& rules, const Mesh& mesh,
                         bool strict) {
  ResolvedManifest out;
  std::vector<Slot> slots = manifest.slots();
  for (Slot& slot : slots) {
    Resolved resolved = resolve(slot.type, rules, mesh, slot.name, strict);
    slot.type = std::move(resolved.type);
    out.reasons.insert(out.reasons.end(), resolved.reasons.begin(), resolved.reasons.end());
  }
  out.manifest = Manifest(std::move(slots), manifest.ties(), manifest.plans());
  return out;
}

}  // namespace strata::sharding
