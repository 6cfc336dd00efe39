#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/data/jinja_builtins.h"
#include "strata/data/jinja_lexer.h"
#include "strata/data/jinja_syntax.h"
#include "strata/data/jinja_text.h"
#include "strata/data/utf8.h"

namespace strata::data::jinja {
namespace {

using Filter = Value (*)(const Value&, const Arguments&, const Site&);
using Test = bool (*)(const Value&, const Arguments&, const Site&);

const Value& needed(const Arguments& arguments, size_t index, std::string_view name,
                    const Site& site) {
  const Value* value = arguments.get(index, name);
  if (value == nullptr) type_error(site, fmt::format("an argument '{}'", name), Value::none());
  return *value;
}

int64_t int_or(const Arguments& arguments, size_t index, std::string_view name, int64_t fallback,
               const Site& site) {
  const Value* value = arguments.get(index, name);
  if (value == nullptr || value->is_none()) return fallback;
  if (!value->is_int() && !value->is_bool()) {
    type_error(site, fmt::format("an integer '{}'", name), *value);
  }
  return value->as_int();
}

bool truth_of(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.get(index, name);
  return value != nullptr && value->truth();
}

// The text of an argument; nothing when it is absent or none.
std::optional<MarkedText> text_of(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.get(index, name);
  if (value == nullptr || value->is_none()) return std::nullopt;
  return to_text(*value);
}

Value trim_filter(const Value& v, const Arguments& a, const Site&) {
  std::optional<MarkedText> chars = text_of(a, 0, "chars");
  std::optional<std::string_view> view;
  if (chars.has_value()) view = chars->text();
  return Value::of(strip(to_text(v), Sides::both, view));
}

Value length_filter(const Value& v, const Arguments&, const Site& site) {
  bool sized = v.is_text() || v.is_list() || v.is_map() || v.is_undefined();
  if (!sized) type_error(site, "something with a length", v);
  return Value::of(static_cast<int64_t>(v.length()));
}

Value default_filter(const Value& v, const Arguments& a, const Site&) {
  bool replaced = v.is_undefined() || (truth_of(a, 1, "boolean") && !v.truth());
  if (!replaced) return v;
  const Value* fallback = a.get(0, "default_value");
  return fallback == nullptr ? Value::of("") : *fallback;
}

// Follows a dotted path of attributes and indices.
Value path_of(const Value& v, const std::string& path, const Site& site) {
  Value at = v;
  for (const std::string& name : strata::split(path, '.')) {
    bool index = !name.empty() && name.size() < 10 &&
                 name.find_first_not_of("0123456789") == std::string::npos;
    Value key = index ? Value::of(int64_t{std::stoi(name)}) : Value::of(name);
    at = item(at, key, site);
  }
  return at;
}

Value join_filter(const Value& v, const Arguments& a, const Site& site) {
  MarkedText separator = text_of(a, 0, "d").value_or(MarkedText());
  const Value* path = a.get(1, "attribute");
  MarkedText out;
  bool first = true;
  for (const Value& part : iterate(v, site)) {
    if (!first) out.append(separator);
    first = false;
    out.append(to_text(path == nullptr ? part : path_of(part, to_text(*path).text(), site)));
  }
  return Value::of(std::move(out));
}

Value first_filter(const Value& v, const Arguments&, const Site& site) {
  Values items = iterate(v, site);
  return items.empty() ? Value::undefined("first item of an empty sequence") : items.front();
}

Value last_filter(const Value& v, const Arguments&, const Site& site) {
  Values items = iterate(v, site);
  return items.empty() ? Value::undefined("last item of an empty sequence") : items.back();
}

Value replace_filter(const Value& v, const Arguments& a, const Site& site) {
  MarkedText old = to_text(needed(a, 0, "old", site));
  MarkedText fresh = to_text(needed(a, 1, "new", site));
  return Value::of(replace(to_text(v), old.text(), fresh, int_or(a, 2, "count", -1, site)));
}

Value items_filter(const Value& v, const Arguments& a, const Site& site) {
  if (v.is_undefined()) return Value::list({});
  if (!v.is_map()) type_error(site, "a dict", v);
  return call_method("items", v, a, site);
}

Value dictsort_filter(const Value& v, const Arguments& a, const Site& site) {
  if (!v.is_map()) type_error(site, "a dict", v);
  if (a.get(1, "by") != nullptr) unsupported(site.where, site.line, "dictsort by value");
  Values items = call_method("items", v, {}, site).items();
  bool exact = truth_of(a, 0, "case_sensitive");
  auto key = [exact](const Value& pair) {
    const std::string& text = pair.items()[0].text().text();
    return exact ? text : to_lower(text);
  };
  bool down = truth_of(a, 2, "reverse");
  std::stable_sort(items.begin(), items.end(), [&](const Value& x, const Value& y) {
    return down ? key(y) < key(x) : key(x) < key(y);
  });
  return Value::list(std::move(items));
}

Value list_filter(const Value& v, const Arguments&, const Site& site) {
  return Value::list(iterate(v, site));
}

// What `map`, `select` and their kin hand on to the filter or test they name.
Arguments rest_of(const Arguments& a, size_t from) {
  Arguments rest;
  for (size_t i = from; i < a.positional.size(); ++i) rest.positional.push_back(a.positional[i]);
  rest.named = a.named;
  return rest;
}

Value map_filter(const Value& v, const Arguments& a, const Site& site) {
  Values out;
  const Value* path = a.positional.empty() ? a.get(0, "attribute") : nullptr;
  if (path != nullptr) {
    const Value* fallback = a.get(1, "default");
    for (const Value& part : iterate(v, site)) {
      Value found = path_of(part, to_text(*path).text(), site);
      out.push_back(found.is_undefined() && fallback != nullptr ? *fallback : found);
    }
    return Value::list(std::move(out));
  }
  std::string name = to_text(needed(a, 0, "filter", site)).text();
  Arguments rest = rest_of(a, 1);
  for (const Value& part : iterate(v, site)) out.push_back(call_filter(name, part, rest, site));
  return Value::list(std::move(out));
}

Value chosen(const Value& v, const Arguments& a, const Site& site, bool keep, bool by_attribute) {
  Values out;
  size_t index = by_attribute ? 1 : 0;
  std::string path;
  if (by_attribute) path = to_text(needed(a, 0, "attribute", site)).text();
  const Value* test = a.get(index, "test");
  Arguments rest = rest_of(a, index + 1);
  for (const Value& part : iterate(v, site)) {
    Value subject = by_attribute ? path_of(part, path, site) : part;
    bool passes =
        test == nullptr ? subject.truth() : call_test(to_text(*test).text(), subject, rest, site);
    if (passes == keep) out.push_back(part);
  }
  return Value::list(std::move(out));
}

Value select_filter(const Value& v, const Arguments& a, const Site& s) {
  return chosen(v, a, s, true, false);
}
Value reject_filter(const Value& v, const Arguments& a, const Site& s) {
  return chosen(v, a, s, false, false);
}
Value selectattr_filter(const Value& v, const Arguments& a, const Site& s) {
  return chosen(v, a, s, true, true);
}
Value rejectattr_filter(const Value& v, const Arguments& a, const Site& s) {
  return chosen(v, a, s, false, true);
}

Value upper_filter(const Value& v, const Arguments&, const Site&) {
  return Value::of(to_text(v).mapped(to_upper));
}
Value lower_filter(const Value& v, const Arguments&, const Site&) {
  return Value::of(to_text(v).mapped(to_lower));
}
Value capitalize_filter(const Value& v, const Arguments&, const Site&) {
  return Value::of(capitalize(to_text(v)));
}
Value title_filter(const Value& v, const Arguments&, const Site&) {
  return Value::of(title(to_text(v)));
}
Value string_filter(const Value& v, const Arguments&, const Site&) { return Value::of(to_text(v)); }
Value safe_filter(const Value& v, const Arguments&, const Site&) { return v; }

std::optional<double> number_in(const std::string& text) {
  std::string_view t = trim(text);
  double value = 0;
  auto result = std::from_chars(t.data(), t.data() + t.size(), value);
  bool whole = result.ec == std::errc() && result.ptr == t.data() + t.size() && !t.empty();
  return whole ? std::optional<double>(value) : std::nullopt;
}

Value int_filter(const Value& v, const Arguments& a, const Site& site) {
  if (v.is_int() || v.is_bool()) return Value::of(v.as_int());
  std::optional<double> number;
  if (v.is_real()) number = v.as_real();
  if (v.is_text()) number = number_in(v.text().text());
  if (!number.has_value() || !(std::fabs(*number) < 9e15)) {
    return Value::of(int_or(a, 0, "default", 0, site));
  }
  return Value::of(static_cast<int64_t>(*number));
}

Value float_filter(const Value& v, const Arguments& a, const Site&) {
  if (v.is_number()) return Value::of(v.as_real());
  std::optional<double> number;
  if (v.is_text()) number = number_in(v.text().text());
  if (number.has_value()) return Value::of(*number);
  const Value* fallback = a.get(0, "default");
  return fallback == nullptr ? Value::of(0.0) : *fallback;
}

Value abs_filter(const Value& v, const Arguments&, const Site& site) {
  if (!v.is_number()) type_error(site, "a number", v);
  if (v.is_real()) return Value::of(std::fabs(v.as_real()));
  return v.as_int() < 0 ? arithmetic("-", Value::of(int64_t{0}), v, site) : Value::of(v.as_int());
}

Value reverse_filter(const Value& v, const Arguments&, const Site& site) {
  if (v.is_text()) return Value::of(slice(v.text(), std::nullopt, std::nullopt, -1));
  Values items = iterate(v, site);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value indent_filter(const Value& v, const Arguments& a, const Site& site) {
  int64_t width = std::clamp<int64_t>(int_or(a, 0, "width", 4, site), 0, 1000);
  std::string margin(static_cast<size_t>(width), ' ');
  bool blank = truth_of(a, 2, "blank");
  MarkedText out;
  if (truth_of(a, 1, "first")) out.append(margin);
  bool first = true;
  for (const MarkedText& line : split(to_text(v), "\n", -1)) {
    if (!first) out.append("\n");
    if (!first && (blank || !line.empty())) out.append(margin);
    first = false;
    out.append(line);
  }
  return Value::of(std::move(out));
}

Value tojson_filter(const Value& v, const Arguments& a, const Site& site) {
  JsonStyle style;
  // HF declares tojson(x, ensure_ascii, indent, separators, sort_keys).
  style.ensure_ascii = truth_of(a, 0, "ensure_ascii");
  style.indent = static_cast<int>(std::clamp<int64_t>(int_or(a, 1, "indent", -1, site), -1, 64));
  style.sort_keys = truth_of(a, 3, "sort_keys");
  const Value* separators = a.get(2, "separators");
  if (separators != nullptr && separators->is_list() && separators->items().size() == 2) {
    style.item_separator = to_text(separators->items()[0]).text();
    style.key_separator = to_text(separators->items()[1]).text();
  } else if (style.indent >= 0) {
    style.item_separator = ",";
  }
  return Value::of(to_json(v, style));
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

constexpr NamedFilter kFilters[] = {
    {"abs", abs_filter},
    {"capitalize", capitalize_filter},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort_filter},
    {"first", first_filter},
    {"float", float_filter},
    {"indent", indent_filter},
    {"int", int_filter},
    {"items", items_filter},
    {"join", join_filter},
    {"last", last_filter},
    {"length", length_filter},
    {"list", list_filter},
    {"lower", lower_filter},
    {"map", map_filter},
    {"reject", reject_filter},
    {"rejectattr", rejectattr_filter},
    {"replace", replace_filter},
    {"reverse", reverse_filter},
    {"safe", safe_filter},
    {"select", select_filter},
    {"selectattr", selectattr_filter},
    {"string", string_filter},
    {"title", title_filter},
    {"tojson", tojson_filter},
    {"trim", trim_filter},
    {"upper", upper_filter},
};

bool test_divisible(const Value& v, const Arguments& a, const Site& site) {
  Value rest = arithmetic("%", v, needed(a, 0, "num", site), site);
  return !rest.truth();
}

bool is_parity(const Value& v, int64_t parity, const Site& site) {
  return equals(arithmetic("%", v, Value::of(int64_t{2}), site), Value::of(parity));
}

bool same(const Value& a, const Value& b) { return a.type_name() == b.type_name() && equals(a, b); }

struct NamedTest {
  std::string_view name;
  Test test;
};

constexpr NamedTest kTests[] = {
    {"defined", [](const Value& v, const Arguments&, const Site&) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, const Arguments&, const Site&) { return v.is_undefined(); }},
    {"none", [](const Value& v, const Arguments&, const Site&) { return v.is_none(); }},
    {"string", [](const Value& v, const Arguments&, const Site&) { return v.is_text(); }},
    {"mapping", [](const Value& v, const Arguments&, const Site&) { return v.is_map(); }},
    {"iterable",
     [](const Value& v, const Arguments&, const Site&) {
       return v.is_list() || v.is_map() || v.is_text() || v.is_undefined();
     }},
    {"sequence",
     [](const Value& v, const Arguments&, const Site&) {
       return v.is_list() || v.is_map() || v.is_text() || v.is_undefined();
     }},
    {"number", [](const Value& v, const Arguments&, const Site&) { return v.is_number(); }},
    {"integer", [](const Value& v, const Arguments&, const Site&) { return v.is_int(); }},
    {"float", [](const Value& v, const Arguments&, const Site&) { return v.is_real(); }},
    {"boolean", [](const Value& v, const Arguments&, const Site&) { return v.is_bool(); }},
    {"true",
     [](const Value& v, const Arguments&, const Site&) { return v.is_bool() && v.truth(); }},
    {"false",
     [](const Value& v, const Arguments&, const Site&) { return v.is_bool() && !v.truth(); }},
    {"callable", [](const Value& v, const Arguments&, const Site&) { return v.is_macro(); }},
    {"odd", [](const Value& v, const Arguments&, const Site& s) { return is_parity(v, 1, s); }},
    {"even", [](const Value& v, const Arguments&, const Site& s) { return is_parity(v, 0, s); }},
    {"divisibleby", test_divisible},
    {"sameas", [](const Value& v, const Arguments& a,
                  const Site& s) { return same(v, needed(a, 0, "other", s)); }},
    {"upper",
     [](const Value& v, const Arguments&, const Site& s) {
       return call_method("isupper", Value::of(to_text(v)), {}, s).truth();
     }},
    {"lower",
     [](const Value& v, const Arguments&, const Site& s) {
       return call_method("islower", Value::of(to_text(v)), {}, s).truth();
     }},
};

// Tests that compare with their argument, and the operator they stand for.
constexpr std::pair<std::string_view, std::string_view> kComparisons[] = {
    {"eq", "=="}, {"equalto", "=="}, {"ne", "!="},         {"lt", "<"},  {"lessthan", "<"},
    {"le", "<="}, {"gt", ">"},       {"greaterthan", ">"}, {"ge", ">="}, {"in", "in"}};

}  // namespace

Value call_filter(const std::string& name, const Value& value, const Arguments& arguments,
                  const Site& site) {
  for (const NamedFilter& entry : kFilters) {
    if (entry.name == name) return entry.filter(value, arguments, site);
  }
  unsupported(site.where, site.line, "the filter '" + name + "'");
}

bool call_test(const std::string& name, const Value& value, const Arguments& arguments,
               const Site& site) {
  for (const NamedTest& entry : kTests) {
    if (entry.name == name) return entry.test(value, arguments, site);
  }
  for (const auto& entry : kComparisons) {
    if (entry.first != name) continue;
    return compare(std::string(entry.second), value, needed(arguments, 0, "other", site), site);
  }
  unsupported(site.where, site.line, "the test '" + name + "'");
}

}  // namespace strata::data::jinja
