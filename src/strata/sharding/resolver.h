// The one resolver of logical dim names to mesh axes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/sharding/dim.h"
#include "strata/sharding/manifest.h"
#include "strata/sharding/mesh.h"

namespace strata::sharding {

// Ordered wishes for a logical name: each candidate is a list of mesh axes, major first. No
// candidate means replicated on purpose.
struct Rule {
  std::string name;
  std::vector<std::vector<std::string>> candidates;

  friend bool operator==(const Rule&, const Rule&) = default;
};

// "embed = fsdp, data+fsdp": candidates separated by commas, the axes of one joined by '+'; nothing
// after '=' replicates. Throws invalid_argument showing the text.
Rule parse_rule(std::string_view text);

// A parameter's type with its mesh axes, and why a dim did not get what its rule asked for.
struct Resolved {
  ParamType type;
  // "model.embed_tokens.weight, dim 0 'vocab' (49152): fsdp is taken by another dim; replicated".
  std::vector<std::string> reasons;
};

struct ResolvedManifest {
  Manifest manifest;
  std::vector<std::string> reasons;
};

// Throws invalid_argument or not_found naming the rule when a name occurs twice, a rule speaks of
// an axis that `mesh` does not have (with the nearest one), or one candidate names an axis twice.
void check_rules(const std::vector<Rule>& rules, const Mesh& mesh);

// Gives every dim, in order, its mesh axes: those it has already (checked as by check_layout), else
// the first candidate of its rule whose axes are unused in this parameter and divide the dim, else
// none, with a reason. A dim without a name is replicated. A layer or inner-layer dim without a
// rule is replicated; any other name without a rule is not_found with the nearest rule.
// `strict` turns every reason into an error (failed_precondition).
Resolved resolve(const ParamType& type, const std::vector<Rule>& rules, const Mesh& mesh,
                 const std::string& path, bool strict);

// All slots of a manifest. Nothing is allocated and `manifest` is not changed.
ResolvedManifest resolve(const Manifest& manifest, const std::vector<Rule>& rules, const Mesh& mesh,
                         bool strict);

}  // namespace strata::sharding
