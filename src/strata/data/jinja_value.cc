#include "strata/data/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strata/base/error.h"
#include "strata/data/utf8.h"

namespace strata::data::jinja {
namespace {

size_t count_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

void check_depth(int depth) {
  if (depth <= kMaxNesting) return;
  fail({.id = "chat_template.limit",
        .where = "chat template",
        .expected = fmt::format("values nested at most {} deep", kMaxNesting),
        .got = "deeper ones",
        .cure = "Flatten the messages' data",
        .code = Code::resource_exhausted});
}

}  // namespace

const Value* Map::find(std::string_view key) const {
  for (const auto& item : items) {
    if (item.first == key) return &item.second;
  }
  return nullptr;
}

Value Value::undefined(std::string name) {
  Value v;
  v.data_ = Undefined{std::move(name)};
  return v;
}

Value Value::none() {
  Value v;
  v.data_ = None{};
  return v;
}

Value Value::of(bool b) {
  Value v;
  v.data_ = b;
  return v;
}

Value Value::of(int64_t i) {
  Value v;
  v.data_ = i;
  return v;
}

Value Value::of(double d) {
  Value v;
  v.data_ = d;
  return v;
}

Value Value::of(MarkedText text) {
  Value v;
  v.data_ = std::make_shared<const MarkedText>(std::move(text));
  return v;
}

Value Value::of(const MacroDefinition* macro) {
  Value v;
  v.data_ = macro;
  return v;
}

Value Value::list(Values items, bool tuple) {
  auto list = std::make_shared<List>();
  list->tuple = tuple;
  list->items = std::move(items);
  for (const Value& item : list->items) {
    list->depth = std::max(list->depth, item.depth() + 1);
    list->holds_namespace = list->holds_namespace || item.holds_namespace();
  }
  check_depth(list->depth);
  Value v;
  v.data_ = std::shared_ptr<const List>(std::move(list));
  return v;
}

Value Value::map(Map map) {
  for (const auto& item : map.items) {
    map.depth = std::max(map.depth, item.second.depth() + 1);
    map.holds_namespace = map.holds_namespace || item.second.holds_namespace();
  }
  check_depth(map.depth);
  Value v;
  v.data_ = std::make_shared<Map>(std::move(map));
  return v;
}

int64_t Value::as_int() const {
  if (is_bool()) return as_bool() ? 1 : 0;
  return std::get<int64_t>(data_);
}

double Value::as_real() const {
  if (is_real()) return std::get<double>(data_);
  return static_cast<double>(as_int());
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"undefined", "None", "bool", "int",  "float",
                                         "str",       "list", "dict", "macro"};
  return kNames[data_.index()];
}

bool Value::truth() const {
  if (is_bool()) return as_bool();
  if (is_int()) return as_int() != 0;
  if (is_real()) return as_real() != 0;
  if (is_text()) return !text().empty();
  if (is_list()) return !items().empty();
  if (is_map()) return map().is_namespace || !map().items.empty();
  return is_macro();
}

size_t Value::length() const {
  if (is_text()) return count_points(text().text());
  if (is_list()) return items().size();
  if (is_map()) return map().items.size();
  return 0;
}

size_t Value::weight() const {
  if (is_text()) return text().size() / 16;
  return is_list() || is_map() ? 4 * length() : 0;
}

int Value::depth() const {
  if (is_list()) return std::get<std::shared_ptr<const List>>(data_)->depth;
  return is_map() ? map().depth : 0;
}

bool Value::holds_namespace() const {
  if (is_list()) return std::get<std::shared_ptr<const List>>(data_)->holds_namespace;
  return is_map() && (map().is_namespace || map().holds_namespace);
}

Value from_json(const Json& json, int32_t origin) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::of(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::of(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{INT64_MAX}) return Value::of(json.get<double>());
      return Value::of(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value::of(json.get<double>());
    case Json::value_t::string:
      return Value::of(MarkedText(to_valid_utf8(json.get_ref<const std::string&>()), origin));
    case Json::value_t::array: {
      Values items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(item, origin));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Map map;
      map.origin = origin;
      for (auto it = json.begin(); it != json.end(); ++it) {
        map.items.emplace_back(to_valid_utf8(it.key()), from_json(it.value(), origin));
      }
      return Value::map(std::move(map));
    }
    default:
      return Value::none();
  }
}

bool equals(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_real() || b.is_real()) return a.as_real() == b.as_real();
    return a.as_int() == b.as_int();
  }
  if (a.is_text() && b.is_text()) return a.text().text() == b.text().text();
  if (a.is_list() && b.is_list()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      equals);
  }
  if (a.is_map() && b.is_map()) {
    if (a.map().is_namespace || b.map().is_namespace) return &a.map() == &b.map();
    if (a.map().items.size() != b.map().items.size()) return false;
    return std::all_of(a.map().items.begin(), a.map().items.end(), [&b](const auto& item) {
      const Value* other = b.map().find(item.first);
      return other != nullptr && equals(item.second, *other);
    });
  }
  if (a.is_macro() && b.is_macro()) return a.macro() == b.macro();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string digits = fmt::format("{}", value);
  size_t e = digits.find('e');
  double size = std::fabs(value);
  // Python writes plain digits from 1e-4 up to 1e16.
  if (e != std::string::npos && size >= 1e-4 && size < 1e16) {
    digits = fmt::format("{:.0f}", value);
    e = std::string::npos;
  }
  if (e == std::string::npos && digits.find('.') == std::string::npos) digits += ".0";
  return digits;
}

MarkedText to_text(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return {};
  MarkedText out;
  append_repr(value, &out);
  return out;
}

namespace {

std::string quoted_repr(const std::string& text) {
  bool single = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  char quote = single ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    size_t begin = i;
    uint32_t point = next_point(text, &i);
    if (point == static_cast<uint8_t>(quote) || point == '\\') {
      out += {'\\', static_cast<char>(point)};
    } else if (point == '\n') {
      out += "\\n";
    } else if (point == '\r') {
      out += "\\r";
    } else if (point == '\t') {
      out += "\\t";
    } else if (is_printable(point)) {
      out += text.substr(begin, i - begin);
    } else if (point < 0x100) {
      out += fmt::format("\\x{:02x}", point);
    } else if (point < 0x10000) {
      out += fmt::format("\\u{:04x}", point);
    } else {
      out += fmt::format("\\U{:08x}", point);
    }
  }
  out.push_back(quote);
  return out;
}

void append_map_repr(const Map& map, MarkedText* out) {
  out->append(map.is_namespace ? "<Namespace {" : "{");
  for (size_t i = 0; i < map.items.size(); ++i) {
    if (i > 0) out->append(", ");
    out->append(quoted_repr(map.items[i].first), map.origin);
    out->append(": ");
    append_repr(map.items[i].second, out);
  }
  out->append(map.is_namespace ? "}>" : "}");
}

}  // namespace

void append_repr(const Value& value, MarkedText* out) {
  if (value.is_undefined()) return out->append("Undefined");
  if (value.is_none()) return out->append("None");
  if (value.is_bool()) return out->append(value.as_bool() ? "True" : "False");
  if (value.is_int()) return out->append(std::to_string(value.as_int()));
  if (value.is_real()) return out->append(real_text(value.as_real()));
  if (value.is_text()) return out->append(quoted_repr(value.text().text()), value.text().origin());
  if (value.is_map()) return append_map_repr(value.map(), out);
  if (value.is_macro()) return out->append("<Macro>");
  out->append(value.is_tuple() ? "(" : "[");
  for (size_t i = 0; i < value.items().size(); ++i) {
    if (i > 0) out->append(", ");
    append_repr(value.items()[i], out);
  }
  if (value.is_tuple() && value.items().size() == 1) out->append(",");
  out->append(value.is_tuple() ? ")" : "]");
}

namespace {

std::string json_string(const std::string& text, bool ensure_ascii) {
  return Json(text).dump(-1, ' ', ensure_ascii, Json::error_handler_t::replace);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, MarkedText* out) : style_(style), out_(out) {}

  void write(const Value& v, int level) {
    if (v.is_none()) return out_->append("null");
    if (v.is_bool()) return out_->append(v.as_bool() ? "true" : "false");
    if (v.is_int()) return out_->append(std::to_string(v.as_int()));
    if (v.is_real()) return out_->append(number(v.as_real()));
    if (v.is_text()) {
      return out_->append(json_string(v.text().text(), style_.ensure_ascii), v.text().origin());
    }
    if (v.is_list()) return write_list(v.items(), level);
    if (v.is_map() && !v.map().is_namespace) return write_map(v.map(), level);
    fail(
        {.id = "chat_template.type",
         .where = "chat template, tojson",
         .expected = "a value that JSON has",
         .got = v.is_undefined() ? "undefined " + v.undefined_name() : std::string(v.type_name())});
  }

 private:
  static std::string number(double v) {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v > 0 ? "Infinity" : "-Infinity";
    return real_text(v);
  }
  void separate(bool first, int level) {
    if (!first) out_->append(style_.item_separator);
    new_line(level + 1);
  }
  void new_line(int level) {
    if (style_.indent < 0) return;
    out_->append("\n" + std::string(static_cast<size_t>(style_.indent * level), ' '));
  }
  void write_list(const Values& items, int level) {
    out_->append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0, level);
      write(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out_->append("]");
  }
  void write_map(const Map& map, int level) {
    std::vector<const std::pair<std::string, Value>*> items;
    for (const auto& item : map.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    out_->append("{");
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0, level);
      out_->append(json_string(items[i]->first, style_.ensure_ascii), map.origin);
      out_->append(style_.key_separator);
      write(items[i]->second, level + 1);
    }
    if (!items.empty()) new_line(level);
    out_->append("}");
  }

  const JsonStyle& style_;
  MarkedText* out_;
};

}  // namespace

MarkedText to_json(const Value& value, const JsonStyle& style) {
  MarkedText out;
  JsonWriter(style, &out).write(value, 0);
  return out;
}

}  // namespace strata::data::jinja
