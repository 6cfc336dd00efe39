// Values of the chat-template interpreter, with Python's meaning of truth, equality and text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "strata/base/json.h"
#include "strata/data/marked_text.h"

namespace strata::data::jinja {

struct MacroDefinition;
class Value;
using Values = std::vector<Value>;

// Lists and maps nest no deeper than this, so that no recursion exhausts the stack.
inline constexpr int kMaxNesting = 120;

struct Undefined {
  std::string name;  // what was looked up, for the error message
};
struct None {};

// Immutable once shared.
struct List {
  Values items;
  int depth = 1;
  bool holds_namespace = false;
  bool tuple = false;  // prints in round brackets
};

// Keys are text and keep their order. Only a namespace changes after it was made.
struct Map {
  std::vector<std::pair<std::string, Value>> items;
  int depth = 1;
  bool holds_namespace = false;
  bool is_namespace = false;
  int32_t origin = kFromTemplate;  // who wrote the keys
  int32_t message = -1;            // the index of the message that this map is

  const Value* find(std::string_view key) const;
};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  static Value undefined(std::string name);
  static Value none();
  static Value of(bool v);
  static Value of(int64_t v);
  static Value of(double v);
  static Value of(MarkedText v);
  static Value of(std::string v) { return of(MarkedText(std::move(v))); }
  static Value of(const char* v) { return of(std::string(v)); }
  // Throw resource_exhausted beyond kMaxNesting.
  static Value list(Values items, bool tuple = false);
  static Value map(Map map);
  static Value of(const MacroDefinition* macro);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_real() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_bool() || is_int() || is_real(); }
  bool is_text() const { return std::holds_alternative<std::shared_ptr<const MarkedText>>(data_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<const List>>(data_); }
  bool is_map() const { return std::holds_alternative<std::shared_ptr<Map>>(data_); }
  bool is_macro() const { return std::holds_alternative<const MacroDefinition*>(data_); }

  // Each requires the matching kind; as_int and as_real also read booleans, as_real integers.
  const std::string& undefined_name() const { return std::get<Undefined>(data_).name; }
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const;
  double as_real() const;
  const MarkedText& text() const { return *std::get<std::shared_ptr<const MarkedText>>(data_); }
  const Values& items() const { return std::get<std::shared_ptr<const List>>(data_)->items; }
  bool is_tuple() const { return is_list() && std::get<std::shared_ptr<const List>>(data_)->tuple; }
  const Map& map() const { return *std::get<std::shared_ptr<Map>>(data_); }
  // A namespace's map, which `set ns.x = …` changes.
  Map* namespace_map() const { return std::get<std::shared_ptr<Map>>(data_).get(); }
  const MacroDefinition* macro() const { return std::get<const MacroDefinition*>(data_); }

  // Python's name of the type: "str", "list", …
  std::string_view type_name() const;
  bool truth() const;
  // Characters, items or keys; bytes/entries of work that handling this value costs.
  size_t length() const;
  size_t weight() const;
  int depth() const;
  bool holds_namespace() const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const MarkedText>,
               std::shared_ptr<const List>, std::shared_ptr<Map>, const MacroDefinition*>
      data_;
};

// The JSON value with every text and key marked as written by `origin`. Throws resource_exhausted
// for deep nesting.
Value from_json(const Json& json, int32_t origin);

// Python's ==; numbers compare across kinds.
bool equals(const Value& a, const Value& b);

// What `{{ value }}` prints: str(value) of Python; nothing for undefined.
MarkedText to_text(const Value& value);
// Python's repr, as it prints inside lists and dicts.
void append_repr(const Value& value, MarkedText* out);

struct JsonStyle {
  int indent = -1;  // -1: one line
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ";  // before an indented line: ","
  std::string key_separator = ": ";
};

// json.dumps of Python as HF's `tojson` calls it. Throws invalid_argument (id
// "chat_template.type") for undefined values and macros.
MarkedText to_json(const Value& value, const JsonStyle& style);

// Python's repr of a float: shortest digits that read back equal.
std::string real_text(double value);

}  // namespace strata::data::jinja
