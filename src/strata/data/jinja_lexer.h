// Cuts a chat template into text and tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::data::jinja {

struct Token {
  enum class Kind {
    text,            // template text, white space already trimmed
    variable_begin,  // {{
    variable_end,    // }}
    block_begin,     // {%
    block_end,       // %}
    name,
    string,  // unquoted and unescaped
    integer,
    real,
    op,  // + - * / // % ** ~ == != < <= > >= = ( ) [ ] { } . : , |
    end,
  };
  Kind kind = Kind::end;
  int line = 0;
  std::string text;
  int64_t integer = 0;
  double real = 0;

  bool is_op(std::string_view op) const { return kind == Kind::op && text == op; }
  bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
};

// Throws invalid_argument (id "chat_template.syntax") naming `where`:line.
std::vector<Token> lex(std::string_view source, const std::string& where);

// "where:line".
std::string at_line(const std::string& where, int line);

[[noreturn]] void syntax_error(const std::string& where, int line, const std::string& expected,
                               const std::string& got);

}  // namespace strata::data::jinja
