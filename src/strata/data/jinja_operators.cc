#include <fmt/format.h>

#include <cmath>

#include "strata/base/error.h"
#include "strata/data/jinja_builtins.h"
#include "strata/data/jinja_lexer.h"
#include "strata/data/jinja_text.h"

namespace strata::data::jinja {
namespace {

[[noreturn]] void fail_arithmetic(const Site& site, const std::string& expected,
                                  const std::string& got) {
  fail({.id = "chat_template.arithmetic",
        .where = at_line(site.where, site.line),
        .expected = expected,
        .got = got,
        .code = Code::out_of_range});
}

Value whole(const std::string& op, int64_t a, int64_t b, const Site& site) {
  int64_t out = 0;
  bool over = op == "+"   ? __builtin_add_overflow(a, b, &out)
              : op == "-" ? __builtin_sub_overflow(a, b, &out)
                          : __builtin_mul_overflow(a, b, &out);
  if (over) fail_arithmetic(site, "integers below 2^63", fmt::format("{} {} {}", a, op, b));
  return Value::of(out);
}

// Floor division and Python's remainder, which has the divisor's sign.
Value divide_floor(const std::string& op, const Value& a, const Value& b, const Site& site) {
  if (a.is_real() || b.is_real()) {
    double q = std::floor(a.as_real() / b.as_real());
    return Value::of(op == "//" ? q : a.as_real() - q * b.as_real());
  }
  int64_t x = a.as_int();
  int64_t y = b.as_int();
  if (y == -1) return op == "//" ? whole("-", 0, x, site) : Value::of(int64_t{0});
  int64_t q = x / y;
  int64_t r = x % y;
  if (r != 0 && (r < 0) != (y < 0)) {
    --q;
    r += y;
  }
  return Value::of(op == "//" ? q : r);
}

Value power(const Value& a, const Value& b, const Site& site) {
  if (a.is_real() || b.is_real() || b.as_int() < 0) {
    return Value::of(std::pow(a.as_real(), b.as_real()));
  }
  int64_t base = a.as_int();
  int64_t exponent = b.as_int();
  if (base == 0 || base == 1) return Value::of(exponent == 0 ? int64_t{1} : base);
  if (base == -1) return Value::of(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  Value out = Value::of(int64_t{1});
  for (int64_t i = 0; i < exponent; ++i) out = whole("*", out.as_int(), base, site);
  return out;
}

Value numbers(const std::string& op, const Value& a, const Value& b, const Site& site) {
  bool divides = op == "/" || op == "//" || op == "%";
  if (divides && b.as_real() == 0) fail_arithmetic(site, "a divisor other than 0", "0");
  if (op == "/") return Value::of(a.as_real() / b.as_real());
  if (divides) return divide_floor(op, a, b, site);
  if (op == "**") return power(a, b, site);
  if (!a.is_real() && !b.is_real()) return whole(op, a.as_int(), b.as_int(), site);
  double x = a.as_real();
  double y = b.as_real();
  return Value::of(op == "+" ? x + y : op == "-" ? x - y : x * y);
}

Value repeated(const MarkedText& text, int64_t times, const Site& site) {
  MarkedText out;
  if (!text.empty() && times > static_cast<int64_t>(MarkedText::kMaxBytes / text.size())) {
    fail_arithmetic(site, "a text below 64 MiB", fmt::format("one repeated {} times", times));
  }
  for (int64_t i = 0; i < times && !text.empty(); ++i) out.append(text);
  return Value::of(std::move(out));
}

bool less(const Value& a, const Value& b, const Site& site) {
  if (a.is_number() && b.is_number()) {
    if (a.is_real() || b.is_real()) return a.as_real() < b.as_real();
    return a.as_int() < b.as_int();
  }
  if (a.is_text() && b.is_text()) return a.text().text() < b.text().text();
  type_error(site, fmt::format("two numbers or two texts to compare, beside a {}", a.type_name()),
             b);
}

bool contains(const Value& container, const Value& what, const Site& site) {
  if (container.is_undefined()) return false;
  if (container.is_text()) {
    if (!what.is_text()) type_error(site, "a text to look for in a text", what);
    return find_text(container.text().text(), what.text().text(), 0) != std::string::npos;
  }
  if (container.is_map()) {
    return what.is_text() && container.map().find(what.text().text()) != nullptr;
  }
  if (!container.is_list()) type_error(site, "a text, list or dict behind 'in'", container);
  for (const Value& v : container.items()) {
    if (equals(v, what)) return true;
  }
  return false;
}

}  // namespace

const Value* Arguments::get(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& argument : named) {
    if (argument.first == name) return &argument.second;
  }
  return nullptr;
}

void type_error(const Site& site, const std::string& expected, const Value& got) {
  bool missing = got.is_undefined();
  fail({.id = missing ? "chat_template.undefined" : "chat_template.type",
        .where = at_line(site.where, site.line),
        .expected = expected,
        .got = missing ? "'" + got.undefined_name() + "', which is undefined"
                       : "a value of type " + std::string(got.type_name()),
        .cure = missing ? "Give the messages the fields that the chat template reads" : ""});
}

Values iterate(const Value& value, const Site& site) {
  if (value.is_list()) return value.items();
  if (value.is_undefined()) return {};
  Values out;
  if (value.is_map()) {
    for (const auto& entry : value.map().items) {
      out.push_back(Value::of(MarkedText(entry.first, value.map().origin)));
    }
  } else if (value.is_text()) {
    std::vector<size_t> offsets = point_offsets(value.text().text());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      out.push_back(Value::of(value.text().part(offsets[i], offsets[i + 1])));
    }
  } else {
    type_error(site, "something to iterate over", value);
  }
  return out;
}

Value attribute(const Value& value, const std::string& name, const Site& site) {
  if (value.is_undefined()) type_error(site, "a value to take '" + name + "' of", value);
  const Value* found = value.is_map() ? value.map().find(name) : nullptr;
  return found == nullptr ? Value::undefined(name) : *found;
}

Value item(const Value& value, const Value& key, const Site& site) {
  if (value.is_undefined()) type_error(site, "a value to index", value);
  if (key.is_text()) return attribute(value, key.text().text(), site);
  bool sequence = value.is_list() || value.is_text();
  if (!sequence || !(key.is_int() || key.is_bool())) {
    return Value::undefined(to_text(key).text());
  }
  auto size = static_cast<int64_t>(value.length());
  int64_t index = key.as_int();
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value::undefined(std::to_string(key.as_int()));
  if (value.is_list()) return value.items()[static_cast<size_t>(index)];
  return Value::of(slice(value.text(), index, index + 1, 1));
}

Value arithmetic(const std::string& op, const Value& a, const Value& b, const Site& site) {
  if (op == "~") {
    MarkedText out = to_text(a);
    out.append(to_text(b));
    return Value::of(std::move(out));
  }
  if (a.is_number() && b.is_number()) return numbers(op, a, b, site);
  if (op == "+" && a.is_text() && b.is_text()) {
    MarkedText out = a.text();
    out.append(b.text());
    return Value::of(std::move(out));
  }
  if (op == "+" && a.is_list() && b.is_list()) {
    Values out = a.items();
    out.insert(out.end(), b.items().begin(), b.items().end());
    return Value::list(std::move(out));
  }
  if (op == "*" && a.is_text() && b.is_int()) return repeated(a.text(), b.as_int(), site);
  if (op == "*" && b.is_text() && a.is_int()) return repeated(b.text(), a.as_int(), site);
  const Value& odd = b.is_undefined() || a.is_number() || a.is_text() || a.is_list() ? b : a;
  const Value& other = &odd == &b ? a : b;
  type_error(site, fmt::format("operands of '{}' that fit, beside a {}", op, other.type_name()),
             odd);
}

bool compare(const std::string& op, const Value& a, const Value& b, const Site& site) {
  if (op == "==") return equals(a, b);
  if (op == "!=") return !equals(a, b);
  if (op == "in") return contains(b, a, site);
  if (op == "not in") return !contains(b, a, site);
  if (op == "<") return less(a, b, site);
  if (op == ">") return less(b, a, site);
  return op == "<=" ? less(a, b, site) || equals(a, b) : less(b, a, site) || equals(a, b);
}

}  // namespace strata::data::jinja
