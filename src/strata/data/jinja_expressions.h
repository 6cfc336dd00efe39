// Parses the expressions of a chat template; the statements around them are jinja_parser.cc's.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "strata/data/jinja_lexer.h"
#include "strata/data/jinja_syntax.h"

namespace strata::data::jinja {

bool one_of(std::string_view text, std::initializer_list<std::string_view> words);

// Walks over tokens. Every failure is an error of jinja::parse.
class Cursor {
 public:
  Cursor(std::vector<Token> tokens, const std::string& where)
      : tokens_(std::move(tokens)), where_(where) {}

  const std::string& where() const { return where_; }
  // The token `ahead` of the next one; the last token stands for all behind it.
  const Token& peek(size_t ahead = 0) const;
  Token take();
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  std::string expect_name(const char* what);
  void expect_end_of_block();
  [[noreturn]] void fail_at(const std::string& expected) const;

  // One level of the parser's recursion; too many are an error.
  class Level {
   public:
    explicit Level(Cursor* cursor);
    ~Level() { --cursor_->level_; }

   private:
    Cursor* cursor_;
  };

 private:
  std::vector<Token> tokens_;
  const std::string& where_;
  size_t at_ = 0;
  int level_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(Cursor* cursor) : cursor_(*cursor) {}

  // expression [, expression]…: a tuple if there is a comma.
  ExprPtr parse_tuple();
  ExprPtr parse_expression() { return parse_conditional(); }
  // Without a trailing `if`, which is a loop's filter.
  ExprPtr parse_or();

 private:
  // Loosest first.
  ExprPtr parse_conditional();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_string();
  ExprPtr parse_list(std::string_view close);
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr value);
  ExprPtr parse_subscript(ExprPtr value);
  ExprPtr parse_filters(ExprPtr value);
  ExprPtr parse_test(ExprPtr value);
  void parse_arguments(Expr* call);
  bool test_argument_follows() const;

  ExprPtr make(Expr::Kind kind, std::string text = {}) const;
  void adopt(Expr* parent, ExprPtr child) const;
  ExprPtr binary(std::string op, ExprPtr left, ExprPtr right) const;

  Cursor& cursor_;
};

}  // namespace strata::data::jinja
