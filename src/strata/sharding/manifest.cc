#include "strata/sharding/manifest.h"

#include <fmt/format.h>

#include <initializer_list>
#include <set>

#include "strata/base/error.h"
#include "strata/base/hash.h"
#include "strata/base/strings.h"

namespace strata::sharding {
namespace {

void check_slot(const Slot& slot) {
  require(!slot.name.empty() && is_utf8(slot.name), {.id = "sharding.slot_name",
                                                     .where = "manifest",
                                                     .expected = "slot names in UTF-8, not empty",
                                                     .got = "'" + slot.name + "'"});
  std::set<std::string_view> used;
  for (const Dim& dim : slot.type.dims) {
    require(dim.size >= 0, {.id = "sharding.slot_dim",
                            .where = "manifest slot '" + slot.name + "'",
                            .expected = "dims >= 0",
                            .got = text_of(slot.type)});
    for (const std::string& axis : dim.axes) {
      require(used.insert(axis).second, {.id = "sharding.axis_twice",
                                         .where = "manifest slot '" + slot.name + "'",
                                         .expected = "each mesh axis once in a parameter",
                                         .got = "'" + axis + "' twice in " + text_of(slot.type)});
    }
  }
}

Json dim_to_json(const Dim& dim) {
  Json json = {{"size", dim.size}};
  if (dim.role != Role::none) json["role"] = name_of(dim.role);
  if (!dim.name.empty()) json["name"] = dim.name;
  if (!dim.axes.empty()) json["axes"] = dim.axes;
  return json;
}

void only_keys(const Json& json, std::initializer_list<std::string_view> known,
               const std::string& where) {
  require(json.is_object(), {.id = "sharding.manifest_object",
                             .where = where,
                             .expected = "a JSON object",
                             .got = json.type_name(),
                             .code = Code::data_loss});
  for (const auto& item : json.items()) {
    bool lawful = false;
    for (std::string_view key : known) lawful = lawful || key == item.key();
    require(lawful, {.id = "sharding.manifest_key",
                     .where = where,
                     .expected = fmt::format("keys {}", fmt::join(known, ", ")),
                     .got = "'" + item.key() + "'",
                     .code = Code::data_loss});
  }
}

const Json& array_at(const Json& json, const std::string& key, const std::string& where) {
  auto it = json.find(key);
  require(it != json.end() && it->is_array(), {.id = "sharding.manifest_array",
                                               .where = where,
                                               .expected = "a list under '" + key + "'",
                                               .got = it == json.end() ? "none" : it->type_name(),
                                               .code = Code::data_loss});
  return *it;
}

Dim dim_from_json(const Json& json, const std::string& where) {
  only_keys(json, {"size", "role", "name", "axes"}, where);
  Dim dim{get_int(json, "size", where)};
  dim.role = parse_role(get_string_or(json, "role", "none", where));
  dim.name = get_string_or(json, "name", "", where);
  if (!json.contains("axes")) return dim;
  for (const Json& axis : array_at(json, "axes", where)) {
    require(axis.is_string(), {.id = "sharding.manifest_axis",
                               .where = where,
                               .expected = "mesh axes as strings",
                               .got = axis.dump().substr(0, 60),
                               .code = Code::data_loss});
    dim.axes.push_back(axis.get<std::string>());
  }
  return dim;
}

Kind parse_kind(const std::string& name, const std::string& where) {
  for (Kind kind : {Kind::param, Kind::buffer, Kind::adapter}) {
    if (name == name_of(kind)) return kind;
  }
  fail({.id = "sharding.slot_kind",
        .where = where,
        .expected = "kind param, buffer or adapter",
        .got = "'" + name + "'",
        .code = Code::data_loss});
}

Slot slot_from_json(const Json& json, const std::string& where) {
  only_keys(json, {"name", "kind", "dtype", "dims"}, where);
  Slot slot;
  slot.name = get_string(json, "name", where);
  slot.kind = parse_kind(get_string(json, "kind", where), where);
  slot.type.dtype = parse_dtype(get_string(json, "dtype", where));
  for (const Json& dim : array_at(json, "dims", where)) {
    slot.type.dims.push_back(dim_from_json(dim, where));
  }
  return slot;
}

LayerPlan plan_from_json(const Json& json, const std::string& where) {
  only_keys(json, {"stack", "runs"}, where);
  LayerPlan plan{get_string(json, "stack", where)};
  for (const Json& run : array_at(json, "runs", where)) {
    only_keys(run, {"first", "cycle", "repeats", "scanned"}, where);
    plan.runs.push_back({get_int(run, "first", where), get_int(run, "cycle", where),
                         get_int(run, "repeats", where),
                         get_bool_or(run, "scanned", false, where)});
  }
  return plan;
}

}  // namespace

std::string_view name_of(Kind kind) {
  if (kind == Kind::adapter) return "adapter";
  return kind == Kind::param ? "param" : "buffer";
}

Manifest::Manifest(std::vector<Slot> slots, std::vector<Tie> ties, std::vector<LayerPlan> plans)
    : slots_(std::move(slots)), ties_(std::move(ties)), plans_(std::move(plans)) {
  auto insert = [&](const std::string& name, int64_t position) {
    require(index_.emplace(name, position).second, {.id = "sharding.name_twice",
                                                    .where = "manifest",
                                                    .expected = "each name once",
                                                    .got = "'" + name + "' twice",
                                                    .code = Code::already_exists});
  };
  for (size_t i = 0; i < slots_.size(); ++i) {
    check_slot(slots_[i]);
    insert(slots_[i].name, static_cast<int64_t>(i));
  }
  size_t owners = index_.size();
  for (const Tie& tie : ties_) {
    int64_t owner = find(tie.owner);
    bool is_slot = owner >= 0 && slots_[static_cast<size_t>(owner)].name == tie.owner;
    require(is_slot && !tie.alias.empty(), {.id = "sharding.tie_owner",
                                            .where = "manifest tie '" + tie.alias + "'",
                                            .expected = "an owner that is one of the slots",
                                            .got = "'" + tie.owner + "'"});
    insert(tie.alias, owner);
  }
  invariant(index_.size() == owners + ties_.size(), "sharding.index", "one entry per name");
  for (const LayerPlan& plan : plans_) check_plan(plan);
}

int64_t Manifest::find(std::string_view name) const {
  auto it = index_.find(name);
  return it == index_.end() ? -1 : it->second;
}

int64_t Manifest::index_of(std::string_view name) const {
  int64_t position = find(name);
  if (position >= 0) return position;
  std::vector<std::string> known;
  for (const auto& entry : index_) known.push_back(entry.first);
  std::string near = nearest(name, known);
  fail({.id = "sharding.unknown_slot",
        .where = "manifest",
        .expected = fmt::format("one of its {} names", known.size()),
        .got = "'" + std::string(name) + "'",
        .cure = near.empty() ? "" : "Did you mean '" + near + "'?",
        .code = Code::not_found});
}

const Slot& Manifest::at(std::string_view name) const {
  return slots_[static_cast<size_t>(index_of(name))];
}

int64_t Manifest::elements(Kind kind) const {
  int64_t total = 0;
  for (const Slot& slot : slots_) total += slot.kind == kind ? slot.type.elements() : 0;
  return total;
}

int64_t Manifest::bytes(Kind kind) const {
  int64_t total = 0;
  for (const Slot& slot : slots_) total += slot.kind == kind ? slot.type.bytes() : 0;
  return total;
}

std::string Manifest::hash() const { return sha256(to_json().dump()); }

Json Manifest::to_json() const {
  Json slots = Json::array();
  for (const Slot& slot : slots_) {
    Json dims = Json::array();
    for (const Dim& dim : slot.type.dims) dims.push_back(dim_to_json(dim));
    slots.push_back({{"name", slot.name},
                     {"kind", name_of(slot.kind)},
                     {"dtype", strata::name_of(slot.type.dtype)},
                     {"dims", dims}});
  }
  Json ties = Json::array();
  for (const Tie& tie : ties_) ties.push_back({{"alias", tie.alias}, {"owner", tie.owner}});
  Json plans = Json::array();
  for (const LayerPlan& plan : plans_) {
    Json runs = Json::array();
    for (const LayerRun& run : plan.runs) {
      runs.push_back({{"first", run.first},
                      {"cycle", run.cycle},
                      {"repeats", run.repeats},
                      {"scanned", run.scanned}});
    }
    plans.push_back({{"stack", plan.stack}, {"runs", runs}});
  }
  return {{"version", kVersion}, {"slots", slots}, {"ties", ties}, {"plans", plans}};
}

Manifest Manifest::from_json(const Json& json, const std::string& where) {
  only_keys(json, {"version", "slots", "ties", "plans"}, where);
  int64_t version = get_int(json, "version", where);
  require(version == kVersion, {.id = "sharding.manifest_version",
                                .where = where,
                                .expected = fmt::format("manifest version {}", kVersion),
                                .got = std::to_string(version),
                                .code = Code::unimplemented});
  auto entry = [&](const char* key, size_t i) { return fmt::format("{}, {}[{}]", where, key, i); };
  std::vector<Slot> slots;
  for (const Json& slot : array_at(json, "slots", where)) {
    slots.push_back(slot_from_json(slot, entry("slots", slots.size())));
  }
  std::vector<Tie> ties;
  for (const Json& tie : array_at(json, "ties", where)) {
    std::string place = entry("ties", ties.size());
    only_keys(tie, {"alias", "owner"}, place);
    ties.push_back({get_string(tie, "alias", place), get_string(tie, "owner", place)});
  }
  std::vector<LayerPlan> plans;
  for (const Json& plan : array_at(json, "plans", where)) {
    plans.push_back(plan_from_json(plan, entry("plans", plans.size())));
  }
  return Manifest(std::move(slots), std::move(ties), std::move(plans));
}

}  // namespace strata::sharding
