#include <fmt/format.h>

#include <algorithm>

#include "strata/data/jinja_builtins.h"
#include "strata/data/jinja_syntax.h"
#include "strata/data/jinja_text.h"
#include "strata/data/utf8.h"

namespace strata::data::jinja {
namespace {

using Method = Value (*)(const MarkedText&, const Arguments&, const Site&);

// The text argument at `index`; nothing when it is absent or none.
std::optional<std::string_view> optional_text(const Arguments& a, size_t index,
                                              std::string_view name, const Site& site) {
  const Value* value = a.get(index, name);
  if (value == nullptr || value->is_none()) return std::nullopt;
  if (!value->is_text()) type_error(site, fmt::format("a text '{}'", name), *value);
  return value->text().text();
}

const MarkedText& needed_text(const Arguments& a, size_t index, std::string_view name,
                              const Site& site) {
  const Value* value = a.get(index, name);
  if (value == nullptr || !value->is_text()) {
    type_error(site, fmt::format("a text '{}'", name), value == nullptr ? Value::none() : *value);
  }
  return value->text();
}

int64_t int_or(const Arguments& a, size_t index, std::string_view name, int64_t fallback,
               const Site& site) {
  const Value* value = a.get(index, name);
  if (value == nullptr) return fallback;
  if (!value->is_int()) type_error(site, fmt::format("an integer '{}'", name), *value);
  return value->as_int();
}

Value list_of(std::vector<MarkedText> parts) {
  Values out;
  for (MarkedText& part : parts) out.push_back(Value::of(std::move(part)));
  return Value::list(std::move(out));
}

std::string_view separator_of(const Arguments& a, const Site& site) {
  std::string_view separator = needed_text(a, 0, "sep", site).text();
  if (separator.empty()) type_error(site, "a separator that is not empty", Value::of(""));
  return separator;
}

bool without_separator(const Arguments& a) {
  const Value* separator = a.get(0, "sep");
  return separator == nullptr || separator->is_none();
}

Value split_method(const MarkedText& t, const Arguments& a, const Site& s) {
  int64_t most = int_or(a, 1, "maxsplit", -1, s);
  if (without_separator(a)) return list_of(split(t, std::nullopt, most));
  return list_of(split(t, separator_of(a, s), most));
}

// Searching from the right is quadratic in the worst case, so what is looked for stays short.
void check_right_search(std::string_view what, const Site& site) {
  if (what.size() <= 256) return;
  unsupported(site.where, site.line, "a search from the right for more than 256 bytes");
}

Value rsplit_method(const MarkedText& t, const Arguments& a, const Site& s) {
  int64_t most = int_or(a, 1, "maxsplit", -1, s);
  if (without_separator(a) && most < 0) return list_of(split(t, std::nullopt, most));
  check_right_search(separator_of(a, s), s);
  return list_of(split_right(t, separator_of(a, s), most));
}

// startswith and endswith take one text or a list of them.
bool affix(const MarkedText& t, const Arguments& a, const Site& site, bool front) {
  const Value* wanted = a.get(0, front ? "prefix" : "suffix");
  if (wanted == nullptr) type_error(site, "a text to compare with", Value::none());
  Values choices = wanted->is_list() ? wanted->items() : Values{*wanted};
  return std::any_of(choices.begin(), choices.end(), [&](const Value& choice) {
    if (!choice.is_text()) type_error(site, "a text to compare with", choice);
    std::string_view text = t.text();
    std::string_view part = choice.text().text();
    if (part.size() > text.size()) return false;
    return text.substr(front ? 0 : text.size() - part.size(), part.size()) == part;
  });
}

Value stripped(const MarkedText& t, const Arguments& a, const Site& s, Sides sides) {
  return Value::of(strip(t, sides, optional_text(a, 0, "chars", s)));
}

Value without_affix(const MarkedText& t, const Arguments& a, const Site& s, bool front) {
  size_t size = needed_text(a, 0, front ? "prefix" : "suffix", s).size();
  if (!affix(t, a, s, front)) return Value::of(t);
  return Value::of(front ? t.part(size, t.size()) : t.part(0, t.size() - size));
}

Value find_method(const MarkedText& t, const Arguments& a, const Site& s, bool from_right) {
  const std::string& what = needed_text(a, 0, "sub", s).text();
  if (from_right) check_right_search(what, s);
  size_t at = from_right ? t.text().rfind(what) : find_text(t.text(), what, 0);
  if (at == std::string::npos) return Value::of(int64_t{-1});
  return Value::of(static_cast<int64_t>(point_offsets(t.text().substr(0, at)).size()) - 1);
}

Value count_method(const MarkedText& t, const Arguments& a, const Site& s) {
  const std::string& what = needed_text(a, 0, "sub", s).text();
  if (what.empty()) return Value::of(static_cast<int64_t>(point_offsets(t.text()).size()));
  int64_t count = 0;
  for (size_t at = find_text(t.text(), what, 0); at != std::string::npos;
       at = find_text(t.text(), what, at + what.size())) {
    ++count;
  }
  return Value::of(count);
}

Value join_method(const MarkedText& t, const Arguments& a, const Site& site) {
  const Value* parts = a.get(0, "iterable");
  if (parts == nullptr) type_error(site, "a list to join", Value::none());
  MarkedText out;
  bool first = true;
  for (const Value& part : iterate(*parts, site)) {
    if (!part.is_text()) type_error(site, "a list of texts", part);
    if (!first) out.append(t);
    first = false;
    out.append(part.text());
  }
  return Value::of(std::move(out));
}

// Whether the text is not empty and every character satisfies `good`.
Value all_points(const MarkedText& t, bool (*good)(uint32_t)) {
  bool all = !t.empty();
  for (size_t i = 0; all && i < t.size();) all = good(next_point(t.text(), &i));
  return Value::of(all);
}

Value in_case(const MarkedText& t, std::string (*wanted)(std::string_view),
              std::string (*other)(std::string_view)) {
  return Value::of(wanted(t.text()) == t.text() && other(t.text()) != t.text());
}

struct NamedMethod {
  std::string_view name;
  Method method;
};

constexpr NamedMethod kTextMethods[] = {
    {"capitalize",
     [](const MarkedText& t, const Arguments&, const Site&) { return Value::of(capitalize(t)); }},
    {"count", count_method},
    {"endswith", [](const MarkedText& t, const Arguments& a,
                    const Site& s) { return Value::of(affix(t, a, s, false)); }},
    {"find", [](const MarkedText& t, const Arguments& a,
                const Site& s) { return find_method(t, a, s, false); }},
    {"isalnum",
     [](const MarkedText& t, const Arguments&, const Site&) {
       return all_points(t, [](uint32_t p) { return is_word(p) && p != '_'; });
     }},
    {"isdigit",
     [](const MarkedText& t, const Arguments&, const Site&) { return all_points(t, is_numeric); }},
    {"islower", [](const MarkedText& t, const Arguments&,
                   const Site&) { return in_case(t, to_lower, to_upper); }},
    {"isspace", [](const MarkedText& t, const Arguments&,
                   const Site&) { return all_points(t, is_python_space); }},
    {"isupper", [](const MarkedText& t, const Arguments&,
                   const Site&) { return in_case(t, to_upper, to_lower); }},
    {"join", join_method},
    {"lower", [](const MarkedText& t, const Arguments&,
                 const Site&) { return Value::of(t.mapped(to_lower)); }},
    {"lstrip", [](const MarkedText& t, const Arguments& a,
                  const Site& s) { return stripped(t, a, s, Sides::left); }},
    {"removeprefix", [](const MarkedText& t, const Arguments& a,
                        const Site& s) { return without_affix(t, a, s, true); }},
    {"removesuffix", [](const MarkedText& t, const Arguments& a,
                        const Site& s) { return without_affix(t, a, s, false); }},
    {"replace",
     [](const MarkedText& t, const Arguments& a, const Site& s) {
       return Value::of(replace(t, needed_text(a, 0, "old", s).text(), needed_text(a, 1, "new", s),
                                int_or(a, 2, "count", -1, s)));
     }},
    {"rfind", [](const MarkedText& t, const Arguments& a,
                 const Site& s) { return find_method(t, a, s, true); }},
    {"rsplit", rsplit_method},
    {"rstrip", [](const MarkedText& t, const Arguments& a,
                  const Site& s) { return stripped(t, a, s, Sides::right); }},
    {"split", split_method},
    {"splitlines",
     [](const MarkedText& t, const Arguments& a, const Site&) {
       const Value* keep = a.get(0, "keepends");
       return list_of(split_lines(t, keep != nullptr && keep->truth()));
     }},
    {"startswith", [](const MarkedText& t, const Arguments& a,
                      const Site& s) { return Value::of(affix(t, a, s, true)); }},
    {"strip", [](const MarkedText& t, const Arguments& a,
                 const Site& s) { return stripped(t, a, s, Sides::both); }},
    {"title",
     [](const MarkedText& t, const Arguments&, const Site&) { return Value::of(title(t)); }},
    {"upper", [](const MarkedText& t, const Arguments&,
                 const Site&) { return Value::of(t.mapped(to_upper)); }},
};

Value list_method(const std::string& name, const Values& items, const Arguments& a,
                  const Site& site) {
  bool known = name == "count" || name == "index";
  if (!known) unsupported(site.where, site.line, "the list method '" + name + "'");
  const Value* what = a.get(0, "value");
  if (what == nullptr) type_error(site, "a value to look for", Value::none());
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!equals(items[i], *what)) continue;
    if (name == "index") return Value::of(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") type_error(site, "a list that holds the value", *what);
  return Value::of(count);
}

Value map_method(const std::string& name, const Map& map, const Arguments& a, const Site& site) {
  if (name == "get") {
    const Value* key = a.get(0, "key");
    const Value* found = key != nullptr && key->is_text() ? map.find(key->text().text()) : nullptr;
    const Value* fallback = a.get(1, "default");
    if (found != nullptr) return *found;
    return fallback == nullptr ? Value::none() : *fallback;
  }
  bool keys = name == "keys" || name == "items";
  bool values = name == "values" || name == "items";
  if (!keys && !values) unsupported(site.where, site.line, "the dict method '" + name + "'");
  Values out;
  for (const auto& entry : map.items) {
    Value key = Value::of(MarkedText(entry.first, map.origin));
    out.push_back(!values ? key : !keys ? entry.second : Value::list({key, entry.second}, true));
  }
  return Value::list(std::move(out));
}

}  // namespace

Value call_method(const std::string& name, const Value& object, const Arguments& arguments,
                  const Site& site) {
  if (object.is_list()) return list_method(name, object.items(), arguments, site);
  if (object.is_map()) return map_method(name, object.map(), arguments, site);
  if (!object.is_text()) type_error(site, "a value with a method '" + name + "'", object);
  for (const NamedMethod& entry : kTextMethods) {
    if (entry.name == name) return entry.method(object.text(), arguments, site);
  }
  unsupported(site.where, site.line, "the string method '" + name + "'");
}

}  // namespace strata::data::jinja
