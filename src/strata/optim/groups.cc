#include "strata/optim/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::optim {
namespace {

using sharding::Manifest;
using sharding::ParamType;
using sharding::Role;
using sharding::Slot;

std::string where_of(const GroupConfig& group) { return "group '" + group.name + "'"; }

void check_number(const GroupConfig& group, std::string_view field, bool good, double value) {
  require(good, {.id = "optim.group_value",
                 .where = where_of(group) + ", " + std::string(field),
                 .expected = field == "clip_norm" ? "a number > 0" : "a finite number >= 0",
                 .got = fmt::format("{}", value)});
}

void check_group(const GroupConfig& group) {
  auto rate = [](double x) { return std::isfinite(x) && x >= 0; };
  check_number(group, "lr_multiplier", rate(group.lr_multiplier), group.lr_multiplier);
  double decay = group.weight_decay.value_or(0);
  check_number(group, "weight_decay", rate(decay), decay);
  double clip = group.clip_norm.value_or(1);
  check_number(group, "clip_norm", clip > 0, clip);
  bool plain =
      group.lr_multiplier == 1 && !group.weight_decay && !group.clip_norm && !group.elementwise;
  require(!group.frozen || plain,
          {.id = "optim.group_declined",
           .where = where_of(group),
           .expected = "no multiplier, decay, clip norm or rule in a frozen group",
           .got = "one",
           .cure = "Declined: a frozen parameter is never updated; leave these fields out"});
}

std::vector<std::string> names_of(const std::vector<GroupConfig>& groups) {
  std::vector<std::string> names;
  for (const GroupConfig& g : groups) names.push_back(g.name);
  return names;
}

void check_groups(const std::vector<GroupConfig>& groups) {
  std::vector<std::string> names = names_of(groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    bool fresh = std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i),
                           names[i]) == names.begin() + static_cast<std::ptrdiff_t>(i);
    require(!names[i].empty() && fresh, {.id = "optim.group_name",
                                         .where = fmt::format("groups, entry {}", i),
                                         .expected = "a name of its own",
                                         .got = names[i].empty() ? "none" : "'" + names[i] + "'"});
    check_group(groups[i]);
  }
}

// Index of each rule's group.
std::vector<int64_t> resolve(const GroupsConfig& config) {
  std::vector<std::string> names = names_of(config.groups);
  std::vector<int64_t> targets;
  for (size_t r = 0; r < config.rules.size(); ++r) {
    const GroupRule& rule = config.rules[r];
    auto found = std::find(names.begin(), names.end(), rule.group);
    require(found != names.end(), {.id = "optim.group_unknown",
                                   .where = fmt::format("rule {} ('{}')", r, rule.glob),
                                   .expected = "one of the groups " + join(names, ", "),
                                   .got = "'" + rule.group + "'",
                                   .cure = "Did you mean '" + nearest(rule.group, names) + "'?"});
    targets.push_back(found - names.begin());
  }
  for (size_t g = 0; g < names.size(); ++g) {
    bool used = std::find(targets.begin(), targets.end(), static_cast<int64_t>(g)) != targets.end();
    require(used, {.id = "optim.group_idle",
                   .where = where_of(config.groups[g]),
                   .expected = "a rule that sends parameters there",
                   .got = "none",
                   .cure = "Add a rule or remove the group"});
  }
  return targets;
}

int64_t unstacked_rank(const ParamType& type) {
  return std::count_if(type.dims.begin(), type.dims.end(),
                       [](const sharding::Dim& d) { return d.role == Role::none; });
}

bool has_dim(const ParamType& type, const std::string& name) {
  return name.empty() || std::any_of(type.dims.begin(), type.dims.end(),
                                     [&](const sharding::Dim& d) { return d.name == name; });
}

// Evaluates the rules and gathers what goes wrong, so that one error names it all.
class Matcher {
 public:
  explicit Matcher(const GroupsConfig& config)
      : config_(config), targets_(resolve(config)), hits_(config.rules.size(), 0) {}

  int64_t group_of(const Slot& slot) {
    std::vector<std::string> names = {slot.name};
    if (auto stacked = sharding::parse_stacked_name(slot.name)) names = stacked->layer_names();
    int64_t group = match(names.front(), slot.kind, slot.type);
    for (const std::string& name : names) {
      int64_t other = match(name, slot.kind, slot.type);
      if (group < 0 || other == group) continue;
      if (other < 0) return -1;
      fail({.id = "optim.group_split",
            .where = "parameter " + slot.name,
            .expected = "all of its layers in group '" + group_name(group) + "'",
            .got = fmt::format("{} in group '{}'", name, group_name(other)),
            .cure = "Build without scanning, or treat the layers alike"});
    }
    return group;
  }

  void check() const {
    report("optim.group_unmatched", "a rule for every parameter", "none", unmatched_,
           "Add a rule with glob '*' at the end");
    report("optim.group_ambiguous", "rules of one group for every parameter", "several", ambiguous_,
           "Narrow the rules or set first_match_wins");
    for (size_t r = 0; r < hits_.size(); ++r) {
      const GroupRule& rule = config_.rules[r];
      require(hits_[r] > 0 || rule.glob == "*",
              {.id = "optim.group_idle",
               .where = fmt::format("rule {} ('{}' to group '{}')", r, rule.glob, rule.group),
               .expected = "parameters that it matches",
               .got = "none",
               .cure = "Rules match the owner's unstacked name, such as "
                       "model.layers.3.mlp.up_proj.weight; tied names are no owners"});
    }
  }

 private:
  const std::string& group_name(int64_t index) const {
    return config_.groups[static_cast<size_t>(index)].name;
  }

  // The group that the rules give; -1 (and a note) when there is none or more than one.
  int64_t match(const std::string& name, sharding::Kind kind, const ParamType& type) {
    const int64_t rank = unstacked_rank(type);
    int64_t group = -1;
    for (size_t r = 0; r < config_.rules.size(); ++r) {
      const GroupRule& rule = config_.rules[r];
      bool fits = rule.min_rank <= rank && rank <= rule.max_rank && has_dim(type, rule.dim);
      fits = fits && rule.kind == kind;
      if (!fits || !glob_matches(rule.glob, name)) continue;
      ++hits_[r];
      if (group < 0) {
        group = targets_[r];
      } else if (targets_[r] != group && !config_.first_match_wins) {
        ambiguous_.push_back(
            fmt::format("{} ({} and {})", name, group_name(group), group_name(targets_[r])));
        return -1;
      }
    }
    if (group < 0) unmatched_.push_back(name);
    return group;
  }

  static void report(std::string_view id, const char* expected, const char* got,
                     std::vector<std::string> names, const char* cure) {
    if (names.empty()) return;
    // A stacked name is looked at twice.
    names.erase(std::unique(names.begin(), names.end()), names.end());
    size_t count = names.size();
    names.resize(std::min<size_t>(count, 20));
    fail({.id = id,
          .where = "parameter groups",
          .expected = expected,
          .got = fmt::format("{} for {} of them: {}{}", got, count, join(names, ", "),
                             count > 20 ? ", ..." : ""),
          .cure = cure});
  }

  const GroupsConfig& config_;
  std::vector<int64_t> targets_;
  std::vector<int64_t> hits_;
  std::vector<std::string> unmatched_, ambiguous_;
};

}  // namespace

GroupsConfig default_groups() {
  return {.groups = {{.name = "decay"}, {.name = "no_decay", .weight_decay = 0.0}},
          .rules = {{.group = "decay", .min_rank = 2}, {.group = "no_decay", .max_rank = 1}}};
}

GroupsConfig muon_groups(double adamw_multiplier) {
  auto rest = [&](std::string name, std::optional<double> decay) {
    return GroupConfig{.name = std::move(name),
                       .lr_multiplier = adamw_multiplier,
                       .weight_decay = decay,
                       .elementwise = true};
  };
  return {.groups = {{.name = "muon"}, rest("adamw", {}), rest("no_decay", 0.0)},
          .rules = {{.group = "no_decay", .max_rank = 1},
                    {.group = "adamw", .dim = "vocab"},
                    {.group = "muon", .min_rank = 3, .max_rank = 3, .dim = "experts"},
                    {.group = "adamw", .dim = "experts"},
                    {.group = "muon", .max_rank = 2},
                    {.group = "adamw"}},
          .first_match_wins = true};
}

GroupsConfig adapter_groups() {
  return {.groups = {{.name = "adapter"}, {.name = "frozen", .frozen = true}},
          .rules = {{.group = "adapter", .kind = sharding::Kind::adapter}, {.group = "frozen"}}};
}

bool has_adapters(const Manifest& manifest) {
  const std::vector<Slot>& slots = manifest.slots();
  return std::any_of(slots.begin(), slots.end(),
                     [](const Slot& s) { return s.kind == sharding::Kind::adapter; });
}

Groups::Groups(const Manifest& manifest, const GroupsConfig& config) : groups_(config.groups) {
  check_groups(groups_);
  Matcher matcher(config);
  for (const Slot& slot : manifest.slots()) {
    of_slot_.push_back(slot.kind != sharding::Kind::buffer ? matcher.group_of(slot) : -1);
  }
  matcher.check();
  counts_.assign(groups_.size(), 0);
  elements_.assign(groups_.size(), 0);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Slot& slot = manifest.slots()[i];
    if (of_slot_[i] < 0) continue;
    size_t group = static_cast<size_t>(of_slot_[i]);
    ++counts_[group];
    elements_[group] += slot.type.elements();
    if (groups_[group].frozen) continue;
    require(slot.type.dtype == DType::f32,
            {.id = "optim.parameter_dtype",
             .where = "parameter " + slot.name,
             .expected = "a float32 master",
             .got = std::string(name_of(slot.type.dtype)),
             .cure = "Train in float32 and cast inside the forward pass, or freeze it"});
    parameters_.push_back({slot.name, slot.type, group, groups_[group].elementwise});
  }
}

const GroupConfig& Groups::group_of(const Manifest& manifest, std::string_view name) const {
  int64_t slot = manifest.find(name);
  int64_t group = slot < 0 ? -1 : of_slot_.at(static_cast<size_t>(slot));
  if (group < 0) {
    fail({.id = "optim.group_of",
          .where = "parameter groups",
          .expected = "the name of a parameter",
          .got = fmt::format("{}'{}'", slot < 0 ? "" : "the buffer ", name),
          .code = Code::not_found});
  }
  return groups_[static_cast<size_t>(group)];
}

std::string Groups::text() const {
  std::string text;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupConfig& group = groups_[g];
    text += fmt::format("{}: {} parameters, {} elements, ", group.name, counts_[g], elements_[g]);
    if (group.frozen) {
      text += "frozen\n";
      continue;
    }
    text += fmt::format(
        "lr x {}, weight decay {}", group.lr_multiplier,
        group.weight_decay ? fmt::format("{}", *group.weight_decay) : "of the optimiser");
    if (group.elementwise) text += ", elementwise";
    if (group.clip_norm) text += fmt::format(", clipped at {} by its own norm", *group.clip_norm);
    text += "\n";
  }
  return text;
}

}  // namespace strata::optim
