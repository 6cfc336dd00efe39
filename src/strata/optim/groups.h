// Parameter groups: which parameters decay, which do not, which are frozen. Groups are one total
// function from the manifest's parameters to group names, evaluated once by ordered rules.
//
// A rule speaks of unstacked names and unstacked ranks ("model.layers.3.mlp.up_proj.weight", 2),
// whatever form the model runs in: a stacked norm [L, D] has rank 1 here and is exempt from decay
// like a single one. Layers stacked together must agree on their group.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/sharding/manifest.h"

namespace strata::optim {

struct GroupConfig {
  std::string name;
  // The group's rate is this times the schedule's.
  double lr_multiplier = 1;
  // Empty = the optimiser's own.
  std::optional<double> weight_decay = {};
  // When given, the group is clipped by its own norm and left out of the global one. Infinity
  // reports the norm and never clips.
  std::optional<double> clip_norm = {};
  // Frozen parameters get no gradient and no slots. Such a group must leave the rest alone.
  bool frozen = false;
  // Keeps the group's parameters from rules that mix a matrix's elements: Muon leaves them to
  // AdamW.
  bool elementwise = false;
};

// Sends the parameters of the kind `kind` whose name matches `glob` (strata::glob_matches), whose
// unstacked rank is in [min_rank, max_rank] and which have a dim of the logical name `dim` (when
// one is given) to `group`. Adapters are a kind of their own: no rule for parameters takes them.
struct GroupRule {
  std::string group;
  std::string glob = "*";
  sharding::Kind kind = sharding::Kind::param;
  int64_t min_rank = 0;
  int64_t max_rank = std::numeric_limits<int64_t>::max();
  std::string dim = {};
};

struct GroupsConfig {
  std::vector<GroupConfig> groups;
  std::vector<GroupRule> rules;
  // Whether the first rule that matches decides. Otherwise a parameter that rules of two groups
  // match is an error.
  bool first_match_wins = false;
};

// "no_decay" (weight decay 0): every parameter of unstacked rank 0 or 1, that is norms, biases,
// A_log and dt_bias; "decay": all others.
GroupsConfig default_groups();

// For Muon: "muon" holds the matrices inside layers, one of an expert alone included; "adamw"
// (elementwise) embeddings and heads (whatever has a dim "vocab"), routers, which have a row an
// expert, and ranks above 2; "no_decay" (elementwise, weight decay 0) what default_groups calls so.
// The rates of the latter two are the schedule's times `adamw_multiplier`.
GroupsConfig muon_groups(double adamw_multiplier = 1);

// For models with adapters: "adapter" holds these and "frozen" every other parameter.
GroupsConfig adapter_groups();
bool has_adapters(const sharding::Manifest& manifest);

// A parameter that is trained.
struct Parameter {
  std::string name;
  sharding::ParamType type;
  size_t group = 0;          // index in Groups::groups()
  bool elementwise = false;  // the group's
};

// The evaluated function. Immutable, so any number of threads may read it.
class Groups {
 public:
  // Throws invalid_argument: optim.group_name (empty or given twice), optim.group_value (a
  // multiplier or decay that is negative or not finite, a clip norm that is not > 0),
  // optim.group_declined (a frozen group with settings that cannot apply), optim.group_unknown (a
  // rule naming no group), optim.group_idle (a group without a rule; a rule whose glob matches
  // nothing), optim.group_unmatched, optim.group_ambiguous (both list the first parameters),
  // optim.group_split (layers of one stacked parameter fall into two groups),
  // optim.parameter_dtype (a trained parameter that is no float32 master).
  Groups(const sharding::Manifest& manifest, const GroupsConfig& config);

  const std::vector<GroupConfig>& groups() const { return groups_; }
  // Trained parameters, in the order of the manifest.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // The group of a manifest's parameter, by its own name or an alias. Throws not_found
  // (optim.group_of) for buffers and unknown names.
  const GroupConfig& group_of(const sharding::Manifest& manifest, std::string_view name) const;
  // One line a group: "no_decay: 61 parameters, 35136 elements, lr x 1, weight decay 0".
  std::string text() const;

 private:
  std::vector<GroupConfig> groups_;
  std::vector<int64_t> of_slot_;  // group of each slot of the manifest; -1 for buffers
  std::vector<Parameter> parameters_;
  std::vector<int64_t> counts_, elements_;  // by group
};

}  // namespace strata::optim
