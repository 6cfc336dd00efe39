#include "strata/data/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "strata/base/error.h"
#include "strata/data/utf8.h"

namespace strata::data::jinja {
namespace {

bool name_start(char c) {
  return std::isalpha(static_cast<uint8_t>(c)) != 0 || c == '_' || static_cast<uint8_t>(c) >= 0x80;
}
bool digit(char c) { return c >= '0' && c <= '9'; }
bool name_part(char c) { return name_start(c) || digit(c); }

std::string_view strip_right(std::string_view text) {
  while (!text.empty() && is_python_space(previous_point(text, text.size()))) {
    do {
      bool lead = (static_cast<uint8_t>(text.back()) & 0xc0) != 0x80;
      text.remove_suffix(1);
      if (lead) break;
    } while (!text.empty());
  }
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& where) : source_(source), where_(where) {
    // Jinja drops one newline at the end of a template.
    if (!source_.empty() && source_.back() == '\n') source_.remove_suffix(1);
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      size_t tag = find_tag(at_);
      if (tag == std::string_view::npos) {
        put_text(source_.substr(at_));
        at_ = source_.size();
        break;
      }
      put_text(text_before(tag));
      advance_to(tag);
      read_tag();
    }
    add(Token::Kind::end);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool starts(std::string_view text) const { return source_.substr(at_, text.size()) == text; }
  void advance_to(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<int64_t>(at_),
                                         source_.begin() + static_cast<int64_t>(end), '\n'));
    at_ = end;
  }
  void advance(size_t n) { advance_to(at_ + n); }
  void add(Token::Kind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }
  void put_text(std::string_view text) {
    if (!text.empty()) add(Token::Kind::text, std::string(text));
  }

  size_t find_tag(size_t from) const {
    for (size_t i = from; i + 1 < source_.size(); ++i) {
      char c = source_[i + 1];
      if (source_[i] == '{' && (c == '{' || c == '%' || c == '#')) return i;
    }
    return std::string_view::npos;
  }

  // The text up to the tag at `tag`, trimmed as its sign and lstrip_blocks say.
  std::string_view text_before(size_t tag) const {
    std::string_view text = source_.substr(at_, tag - at_);
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') return strip_right(text);
    if (sign == '+' || source_[tag + 1] == '{') return text;
    size_t line = text.rfind('\n') + 1;  // npos + 1 = 0
    if (line == 0 && !line_starting_) return text;
    std::string_view head = strip_right(text);
    return head.size() <= line ? text.substr(0, line) : text;
  }

  void read_tag();
  void read_expression(std::string_view end, Token::Kind end_kind);
  void read_token();
  void read_string();
  void read_number();
  void read_operator();
  void skip_comment();
  bool skip_raw();
  // Consumes an end delimiter and what it trims.
  void finish_tag(char sign, size_t delimiter, bool is_block);

  std::string_view source_;
  const std::string& where_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

void Lexer::finish_tag(char sign, size_t delimiter, bool is_block) {
  size_t begin = at_;
  advance((sign == '\0' ? 0 : 1) + delimiter);
  if (sign == '-') {
    size_t i = at_;
    while (i < source_.size()) {
      size_t next = i;
      if (!is_python_space(next_point(source_, &next))) break;
      i = next;
    }
    advance_to(i);
  } else if (sign != '+' && is_block && peek() == '\n') {
    advance(1);
  }
  line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
}

void Lexer::read_tag() {
  if (starts("{#")) return skip_comment();
  if (starts("{%") && skip_raw()) return;
  bool block = starts("{%");
  add(block ? Token::Kind::block_begin : Token::Kind::variable_begin);
  advance(2);
  if (peek() == '-' || (peek() == '+' && block)) advance(1);
  read_expression(block ? "%}" : "}}", block ? Token::Kind::block_end : Token::Kind::variable_end);
}

void Lexer::skip_comment() {
  size_t end = source_.find("#}", at_ + 2);
  if (end == std::string_view::npos) syntax_error(where_, line_, "'#}'", "the end of the template");
  char sign = source_[end - 1] == '-' || source_[end - 1] == '+' ? source_[end - 1] : '\0';
  if (end - 1 <= at_ + 1) sign = '\0';
  advance_to(sign == '\0' ? end : end - 1);
  finish_tag(sign, 2, true);
}

// {% raw %} … {% endraw %}: everything between is text.
bool Lexer::skip_raw() {
  auto match = [this](size_t from, std::string_view word, size_t* end, char* last_sign) {
    size_t i = from + 2;
    auto blank = [&] {
      while (i < source_.size() && (source_[i] == ' ' || source_[i] == '\n')) ++i;
    };
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    blank();
    if (source_.substr(i, word.size()) != word) return false;
    i += word.size();
    blank();
    *last_sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : '\0';
    *end = i;
    return source_.substr(i + (*last_sign == '\0' ? 0 : 1), 2) == "%}";
  };
  size_t end = 0;
  char sign = '\0';
  if (!match(at_, "raw", &end, &sign)) return false;
  advance_to(end);
  finish_tag(sign, 2, true);
  for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
       tag = source_.find("{%", tag + 2)) {
    if (!match(tag, "endraw", &end, &sign)) continue;
    put_text(text_before(tag));
    advance_to(end);
    finish_tag(sign, 2, true);
    return true;
  }
  syntax_error(where_, line_, "{% endraw %}", "the end of the template");
}

void Lexer::read_expression(std::string_view end, Token::Kind end_kind) {
  std::string open;  // brackets that wait for their partner
  while (true) {
    while (at_ < source_.size() && std::isspace(static_cast<uint8_t>(peek())) != 0) advance(1);
    if (at_ >= source_.size()) {
      syntax_error(where_, line_, "'" + std::string(end) + "'", "the end of the template");
    }
    bool sign = peek() == '-' || (peek() == '+' && end == "%}");
    if (open.empty() && (starts(end) || (sign && source_.substr(at_ + 1, 2) == end))) {
      add(end_kind);
      return finish_tag(sign ? peek() : '\0', 2, end == "%}");
    }
    char c = peek();
    if (c == '(' || c == '[' || c == '{') open.push_back(c);
    if (c == ')' || c == ']' || c == '}') {
      char partner = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || open.back() != partner) {
        syntax_error(where_, line_, "balanced brackets", fmt::format("'{}'", c));
      }
      open.pop_back();
    }
    read_token();
  }
}

void Lexer::read_token() {
  char c = peek();
  if (c == '"' || c == '\'') return read_string();
  if (digit(c)) return read_number();
  if (!name_start(c)) return read_operator();
  size_t end = at_;
  while (end < source_.size() && name_part(source_[end])) ++end;
  add(Token::Kind::name, std::string(source_.substr(at_, end - at_)));
  advance_to(end);
}

void Lexer::read_number() {
  size_t end = at_;
  auto digits = [&] {
    while (end < source_.size() && (digit(source_[end]) || source_[end] == '_')) ++end;
  };
  digits();
  bool real = false;
  if (end + 1 < source_.size() && source_[end] == '.' && digit(source_[end + 1])) {
    real = true;
    ++end;
    digits();
  }
  size_t e = end;
  if (e < source_.size() && (source_[e] == 'e' || source_[e] == 'E')) {
    ++e;
    if (e < source_.size() && (source_[e] == '+' || source_[e] == '-')) ++e;
    if (e < source_.size() && digit(source_[e])) {
      real = true;
      end = e;
      digits();
    }
  }
  std::string text(source_.substr(at_, end - at_));
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  add(real ? Token::Kind::real : Token::Kind::integer, text);
  Token& token = tokens_.back();
  if (real) {
    token.real = std::strtod(text.c_str(), nullptr);
  } else {
    auto result = std::from_chars(text.data(), text.data() + text.size(), token.integer);
    if (result.ec != std::errc()) syntax_error(where_, line_, "an integer below 2^63", text);
  }
  advance_to(end);
}

namespace {

// Value of `digits` hexadecimal digits at `at`, or -1.
int64_t hex_value(std::string_view text, size_t at, size_t digits) {
  if (at + digits > text.size()) return -1;
  uint32_t value = 0;
  auto result = std::from_chars(text.data() + at, text.data() + at + digits, value, 16);
  bool whole = result.ec == std::errc() && result.ptr == text.data() + at + digits;
  return whole ? int64_t{value} : -1;
}

}  // namespace

void Lexer::read_string() {
  char quote = peek();
  int line = line_;
  std::string out;
  size_t i = at_ + 1;
  while (i < source_.size() && source_[i] != quote) {
    if (source_[i] != '\\' || i + 1 >= source_.size()) {
      out.push_back(source_[i++]);
      continue;
    }
    char c = source_[i + 1];
    i += 2;
    constexpr std::string_view kFrom = "ntrabfv0\\'\"";
    constexpr std::string_view kTo("\n\t\r\a\b\f\v\0\\'\"", 11);
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      int64_t point = hex_value(source_, i, digits);
      if (point < 0 || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        syntax_error(where_, line, "a character's hexadecimal digits", fmt::format("\\{}", c));
      }
      append_utf8(static_cast<uint32_t>(point), &out);
      i += digits;
    } else if (kFrom.find(c) != std::string_view::npos) {
      out.push_back(kTo[kFrom.find(c)]);
    } else if (c != '\n') {
      out += {'\\', c};
    }
  }
  if (i >= source_.size()) syntax_error(where_, line, "a closing quote", "the end of the template");
  add(Token::Kind::string, std::move(out));
  advance_to(i + 1);
}

void Lexer::read_operator() {
  constexpr std::string_view kTwo[] = {"==", "!=", "<=", ">=", "//", "**"};
  for (std::string_view op : kTwo) {
    if (!starts(op)) continue;
    add(Token::Kind::op, std::string(op));
    return advance(2);
  }
  constexpr std::string_view kOne = "+-*/%~<>=()[]{}.:,|";
  if (kOne.find(peek()) == std::string_view::npos) {
    syntax_error(where_, line_, "an expression", fmt::format("character '{}'", peek()));
  }
  add(Token::Kind::op, std::string(1, peek()));
  advance(1);
}

}  // namespace

std::vector<Token> lex(std::string_view source, const std::string& where) {
  // Every kind of line end becomes "\n", as in Jinja.
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text.push_back('\n');
    }
  }
  text = to_valid_utf8(text);
  return Lexer(text, where).run();
}

std::string at_line(const std::string& where, int line) {
  return fmt::format("{}:{}", where, line);
}

void syntax_error(const std::string& where, int line, const std::string& expected,
                  const std::string& got) {
  fail({.id = "chat_template.syntax",
        .where = at_line(where, line),
        .expected = expected,
        .got = got,
        .cure = "Correct the chat template"});
}

}  // namespace strata::data::jinja
