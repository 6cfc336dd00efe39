// Filters, tests, methods and operators of the chat-template interpreter. All are pure functions;
// all throw invalid_argument (id "chat_template.type" or "chat_template.undefined") naming the
// line for values they cannot work on, unimplemented for names outside the subset.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/data/jinja_value.h"

namespace strata::data::jinja {

// Where in the template something is evaluated, for error messages.
struct Site {
  const std::string& where;
  int line = 0;
};

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index` or of that name; null when it is absent.
  const Value* get(size_t index, std::string_view name) const;
};

[[noreturn]] void type_error(const Site& site, const std::string& expected, const Value& got);

// What a `for` visits: items, keys or characters; nothing for undefined.
Values iterate(const Value& value, const Site& site);

// value.name and value[key]; undefined when there is no such thing.
Value attribute(const Value& value, const std::string& name, const Site& site);
Value item(const Value& value, const Value& key, const Site& site);

Value call_filter(const std::string& name, const Value& value, const Arguments& arguments,
                  const Site& site);
bool call_test(const std::string& name, const Value& value, const Arguments& arguments,
               const Site& site);
Value call_method(const std::string& name, const Value& object, const Arguments& arguments,
                  const Site& site);

// + - * / // % ** ~
Value arithmetic(const std::string& op, const Value& a, const Value& b, const Site& site);
// == != < <= > >= in, not in
bool compare(const std::string& op, const Value& a, const Value& b, const Site& site);

}  // namespace strata::data::jinja
