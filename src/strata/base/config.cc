#include "strata/base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"

namespace strata {
namespace {

// What a walk over parsed TOML hands out: leaves (tables not among them) and tables.
struct Found {
  std::string key;
  Json value;  // null for a table
  int64_t line = 0;
};

toml::table parse_toml(std::string_view text, const std::string& where) {
  try {
    return toml::parse(text, where);
  } catch (const toml::parse_error& e) {
    fail({.id = "config.parse",
          .where = fmt::format("{}:{}", where, e.source().begin.line),
          .expected = "valid TOML",
          .got = std::string(e.description()),
          .code = Code::data_loss});
  }
}

Json leaf_to_json(const toml::node& node, const std::string& key, const std::string& where) {
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* list = node.as_array()) {
    Json json = Json::array();
    for (const toml::node& item : *list) json.push_back(leaf_to_json(item, key, where));
    return json;
  }
  fail({.id = "config.value_kind",
        .where = fmt::format("{}:{}, key '{}'", where, node.source().begin.line, key),
        .expected = "a string, number, boolean, list of these, table or list of tables",
        .got = node.is_table() ? "a table among other values" : "a date or time"});
}

// toml++ limits nesting to 256 levels, which bounds this recursion.
void walk(const toml::node& node, const std::string& key, const std::string& where,
          std::vector<Found>& out) {
  auto line = static_cast<int64_t>(node.source().begin.line);
  if (const toml::table* table = node.as_table()) {
    if (!key.empty()) out.push_back({key, nullptr, line});
    std::string prefix = key.empty() ? "" : key + ".";
    for (const auto& item : *table) {
      walk(item.second, prefix + std::string(item.first.str()), where, out);
    }
    return;
  }
  const toml::array* list = node.as_array();
  if (list != nullptr && list->is_homogeneous<toml::table>()) {
    out.push_back({key, nullptr, line});
    for (size_t i = 0; i < list->size(); ++i) {
      walk((*list)[i], fmt::format("{}[{}]", key, i), where, out);
    }
    return;
  }
  out.push_back({key, leaf_to_json(node, key, where), line});
}

// The value of an override: TOML where it parses as one, else the text itself.
Json override_value(const std::string& raw, const std::string& place) {
  // A line break could smuggle in a second key.
  if (raw.find_first_of("\n\r") != std::string::npos) return raw;
  std::optional<toml::table> table;
  try {
    table = toml::parse("value = " + raw);
  } catch (const toml::parse_error&) {
    return raw;
  }
  return leaf_to_json(*table->get("value"), "value", place);
}

bool lawful_key(std::string_view key) {
  auto lawful = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.[]").find(c) != std::string_view::npos;
  };
  return !key.empty() && key.front() != '.' && key.back() != '.' &&
         key.find("..") == std::string_view::npos && std::all_of(key.begin(), key.end(), lawful);
}

std::string type_text(const Json& value) {
  const char* type = value.is_number_integer() ? "integer"
                     : value.is_number()       ? "number"
                     : value.is_array()        ? "list"
                                               : value.type_name();
  return fmt::format("{} {}", type, value.dump().substr(0, 80));
}

[[noreturn]] void wrong_type(const std::string& place, const std::string& key,
                             const std::string& expected, const Json& got) {
  fail({.id = "config.type",
        .where = place + ", key '" + key + "'",
        .expected = expected,
        .got = got.is_null() ? "a table" : type_text(got)});
}

int64_t checked_integer(const Json& value, const std::string& key, const std::string& place,
                        IntRange range) {
  if (!value.is_number_integer()) wrong_type(place, key, "an integer", value);
  auto v = value.get<int64_t>();
  require(v >= range.least && v <= range.most,
          {.id = "config.range",
           .where = place + ", key '" + key + "'",
           .expected = range.most == IntRange{}.most
                           ? fmt::format("an integer of at least {}", range.least)
                           : fmt::format("an integer from {} to {}", range.least, range.most),
           .got = std::to_string(v)});
  return v;
}

double checked_number(const Json& value, const std::string& key, const std::string& place,
                      NumberRange range) {
  if (!value.is_number()) wrong_type(place, key, "a number", value);
  auto v = value.get<double>();
  // Written so that NaN fails it.
  bool above = range.open_below ? v > range.least : v >= range.least;
  require(above && v <= range.most,
          {.id = "config.range",
           .where = place + ", key '" + key + "'",
           .expected = fmt::format("a number {} {} and <= {}",
                                   range.open_below ? ">" : ">=", range.least, range.most),
           .got = fmt::format("{}", v)});
  return v;
}

// One step of a dotted path: a name, then perhaps an index into an array of tables.
Json& descend(Json& at, const std::string& step) {
  size_t bracket = step.find('[');
  Json& named = at[step.substr(0, bracket)];
  if (bracket == std::string::npos) return named;
  if (named.is_null()) named = Json::array();
  // Getters of list elements run for 0, 1, 2, …; the index is Strata's own, never the input's.
  auto index = static_cast<size_t>(std::stoul(step.substr(bracket + 1)));
  while (named.size() <= index) named.push_back(Json::object());
  return named[index];
}

toml::table to_toml(const Json& object);

void append_toml(toml::array& list, const Json& value) {
  if (value.is_object()) {
    list.push_back(to_toml(value));
  } else if (value.is_string()) {
    list.push_back(value.get<std::string>());
  } else if (value.is_boolean()) {
    list.push_back(value.get<bool>());
  } else if (value.is_number_integer()) {
    list.push_back(value.get<int64_t>());
  } else if (value.is_number()) {
    list.push_back(value.get<double>());
  } else {
    toml::array inner;
    for (const Json& item : value) append_toml(inner, item);
    list.push_back(std::move(inner));
  }
}

toml::table to_toml(const Json& object) {
  toml::table table;
  for (const auto& item : object.items()) {
    toml::array one;
    append_toml(one, item.value());
    one[0].visit([&](auto& node) { table.insert(item.key(), std::move(node)); });
  }
  return table;
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// A key in the wrong table is likelier than a misspelt one.
std::string nearest_key(const std::string& key, const std::vector<std::string>& known) {
  std::vector<std::string> same;
  for (const std::string& k : known) {
    if (last_part(k) == last_part(key)) same.push_back(k);
  }
  return nearest(key, same.empty() ? known : same);
}

}  // namespace

Config Config::from_file(const std::filesystem::path& path,
                         std::span<const std::string> overrides) {
  return from_text(read_file(path), path.string(), overrides);
}

Config Config::from_text(std::string_view text, const std::string& where,
                         std::span<const std::string> overrides) {
  Config config;
  config.where_ = where;
  std::vector<Found> found;
  walk(parse_toml(text, where), "", where, found);
  for (Found& f : found) {
    bool is_table = f.value.is_null();
    config.entries_[f.key] = {std::move(f.value), fmt::format("{}:{}", where, f.line), "",
                              is_table};
  }
  for (const std::string& o : overrides) config.apply(o);
  return config;
}

void Config::apply(const std::string& override_text) {
  size_t equals = override_text.find('=');
  std::string key(trim(std::string_view(override_text).substr(0, equals)));
  require(equals != std::string::npos && lawful_key(key),
          {.id = "config.override",
           .where = "--set " + override_text,
           .expected = "key=value with a dotted key such as train.lr",
           .got = "'" + override_text + "'"});
  std::string place = "--set " + key;
  auto clash = [&](const std::string& what) {
    fail({.id = "config.override_kind",
          .where = place,
          .expected = "a key that can hold a value",
          .got = what});
  };
  auto old = entries_.find(key);
  if (old != entries_.end() && old->second.is_table) {
    clash("'" + key + "', a table in " + old->second.place);
  }
  for (size_t dot = key.rfind('.'); dot != std::string::npos && dot > 0;
       dot = key.rfind('.', dot - 1)) {
    auto outer = entries_.find(key.substr(0, dot));
    if (outer != entries_.end() && !outer->second.is_table) {
      clash("'" + outer->first + "', a value in " + outer->second.place);
    }
  }
  std::string raw(trim(std::string_view(override_text).substr(equals + 1)));
  entries_[key] = {override_value(raw, place), place, raw, false};
}

bool Config::has(const std::string& key) const { return entries_.count(key) > 0; }

std::string Config::place(const std::string& key) const {
  auto it = entries_.find(key);
  return it == entries_.end() ? where_ : it->second.place;
}

const Config::Entry* Config::declare(const std::string& key) {
  if (declared_.emplace(key, effective_.size()).second) effective_.emplace_back(key, nullptr);
  auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

const Config::Entry& Config::declare_required(const std::string& key, const char* expected) {
  const Entry* entry = declare(key);
  require(entry != nullptr, {.id = "config.missing",
                             .where = where_,
                             .expected = fmt::format("key '{}', {}", key, expected),
                             .got = "no such key",
                             .code = Code::not_found});
  return *entry;
}

void Config::remember(const std::string& key, Json value) {
  effective_[declared_.at(key)].second = std::move(value);
}

int64_t Config::count(const std::string& key) {
  const Entry* entry = declare(key);
  if (entry == nullptr) return 0;
  int64_t n = 0;
  while (entries_.count(fmt::format("{}[{}]", key, n)) > 0) ++n;
  if (!entry->is_table || n == 0) wrong_type(entry->place, key, "a list of tables", entry->value);
  return n;
}

bool Config::flag(const std::string& key, bool fallback) {
  const Entry* entry = declare(key);
  bool value = fallback;
  if (entry != nullptr) {
    if (!entry->value.is_boolean()) wrong_type(entry->place, key, "true or false", entry->value);
    value = entry->value.get<bool>();
  }
  remember(key, value);
  return value;
}

int64_t Config::integer(const std::string& key, IntRange range) {
  const Entry& entry = declare_required(key, "an integer");
  int64_t value = checked_integer(entry.value, key, entry.place, range);
  remember(key, value);
  return value;
}

int64_t Config::integer(const std::string& key, int64_t fallback, IntRange range) {
  if (declare(key) != nullptr) return integer(key, range);
  remember(key, fallback);
  return fallback;
}

double Config::number(const std::string& key, NumberRange range) {
  const Entry& entry = declare_required(key, "a number");
  double value = checked_number(entry.value, key, entry.place, range);
  remember(key, value);
  return value;
}

double Config::number(const std::string& key, double fallback, NumberRange range) {
  if (declare(key) != nullptr) return number(key, range);
  remember(key, fallback);
  return fallback;
}

std::string Config::checked_text(const std::string& key, const Entry& entry) const {
  if (entry.value.is_string()) return entry.value.get<std::string>();
  // `--set run.name=2024` means the text "2024".
  if (!entry.raw.empty() && !entry.value.is_array()) return entry.raw;
  wrong_type(entry.place, key, "a string", entry.value);
}

std::string Config::text(const std::string& key) {
  const Entry& entry = declare_required(key, "a string");
  std::string value = checked_text(key, entry);
  remember(key, value);
  return value;
}

std::string Config::text(const std::string& key, const std::string& fallback) {
  if (declare(key) != nullptr) return text(key);
  remember(key, fallback);
  return fallback;
}

std::string Config::choice(const std::string& key, const std::string& fallback,
                           std::span<const std::string> allowed) {
  std::string value = text(key, fallback);
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    fail({.id = "config.choice",
          .where = place(key) + ", key '" + key + "'",
          .expected = "one of " + join(allowed, ", "),
          .got = "'" + value + "'",
          .cure = "Did you mean '" + nearest(value, allowed) + "'?"});
  }
  return value;
}

std::vector<std::string> Config::texts(const std::string& key) {
  const Entry* entry = declare(key);
  std::vector<std::string> values;
  if (entry != nullptr) {
    if (!entry->value.is_array()) wrong_type(entry->place, key, "a list of strings", entry->value);
    for (const Json& item : entry->value) {
      if (!item.is_string()) wrong_type(entry->place, key, "a list of strings", entry->value);
      values.push_back(item.get<std::string>());
    }
  }
  remember(key, values);
  return values;
}

std::vector<int64_t> Config::integers(const std::string& key, IntRange range) {
  const Entry* entry = declare(key);
  std::vector<int64_t> values;
  if (entry != nullptr) {
    if (!entry->value.is_array()) wrong_type(entry->place, key, "a list of integers", entry->value);
    for (const Json& item : entry->value) {
      values.push_back(checked_integer(item, key, entry->place, range));
    }
  }
  remember(key, values);
  return values;
}

std::vector<double> Config::numbers(const std::string& key, NumberRange range) {
  const Entry* entry = declare(key);
  std::vector<double> values;
  if (entry != nullptr) {
    if (!entry->value.is_array()) wrong_type(entry->place, key, "a list of numbers", entry->value);
    for (const Json& item : entry->value) {
      values.push_back(checked_number(item, key, entry->place, range));
    }
  }
  remember(key, values);
  return values;
}

void Config::allow(const std::string& key) { declare(key); }

std::vector<std::string> Config::declared() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : effective_) keys.push_back(key);
  return keys;
}

void Config::reject_unknown() const {
  std::vector<std::string> known = declared();
  auto is_inside = [](const std::string& inner, const std::string& table) {
    return inner.size() > table.size() && inner.compare(0, table.size(), table) == 0 &&
           (inner[table.size()] == '.' || inner[table.size()] == '[');
  };
  auto is_known = [&](const std::string& key, bool is_table) {
    if (declared_.count(key) > 0) return true;
    // A table is known when something inside it is; one that holds anything is judged by that.
    auto inside = [&](const std::string& k) { return is_inside(k, key); };
    auto holds = [&](const auto& entry) { return is_inside(entry.first, key); };
    return is_table && (std::any_of(known.begin(), known.end(), inside) ||
                        std::any_of(entries_.begin(), entries_.end(), holds));
  };
  constexpr size_t kShown = 20;
  std::string first_place;
  std::string got;
  size_t unknown = 0;
  for (const auto& [key, entry] : entries_) {
    if (is_known(key, entry.is_table) || ++unknown > kShown) continue;
    std::string near = nearest_key(key, known);
    if (unknown == 1) first_place = entry.place;
    got += fmt::format("{}'{}'", unknown == 1 ? "" : ", ", key);
    if (unknown > 1) got += fmt::format(" ({})", entry.place);
    if (!near.empty()) got += fmt::format(", did you mean '{}'?", near);
  }
  if (unknown == 0) return;
  if (unknown > kShown) got += fmt::format(" and {} more", unknown - kShown);
  fail({.id = "config.unknown_key",
        .where = first_place,
        .expected = "known keys only",
        .got = got});
}

Json Config::effective() const {
  Json root = Json::object();
  for (const auto& [key, value] : effective_) {
    if (value.is_null()) continue;
    Json* at = &root;
    for (const std::string& step : split(key, '.')) at = &descend(*at, step);
    *at = value;
  }
  return root;
}

std::string Config::effective_toml() const {
  std::ostringstream text;
  text << to_toml(effective()) << "\n";
  return text.str();
}

}  // namespace strata
