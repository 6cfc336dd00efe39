#include "strata/data/jinja_expressions.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata::data::jinja {

using Kind = Expr::Kind;

namespace {

// Nested blocks and brackets that the parser follows by recursion.
constexpr int kMaxRecursion = 100;

}  // namespace

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

Cursor::Level::Level(Cursor* cursor) : cursor_(cursor) {
  if (++cursor->level_ > kMaxRecursion) {
    syntax_error(cursor->where_, cursor->peek().line,
                 fmt::format("at most {} nested levels", kMaxRecursion), "more");
  }
}

const Token& Cursor::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Cursor::take() {
  Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Cursor::skip_op(std::string_view op) {
  if (!peek().is_op(op)) return false;
  take();
  return true;
}

bool Cursor::skip_name(std::string_view name) {
  if (!peek().is_name(name)) return false;
  take();
  return true;
}

void Cursor::expect_op(std::string_view op) {
  if (!skip_op(op)) fail_at(fmt::format("'{}'", op));
}

std::string Cursor::expect_name(const char* what) {
  if (peek().kind != Token::Kind::name) fail_at(what);
  return take().text;
}

void Cursor::expect_end_of_block() {
  if (peek().kind != Token::Kind::block_end) fail_at("'%}'");
  take();
}

void Cursor::fail_at(const std::string& expected) const {
  const Token& t = peek();
  std::string got = t.kind == Token::Kind::end         ? "the end of the template"
                    : t.kind == Token::Kind::block_end ? "'%}'"
                    : t.kind == Token::Kind::text      ? "text"
                    : t.text.empty()                   ? "another token"
                                                       : "'" + t.text.substr(0, 40) + "'";
  syntax_error(where_, t.line, expected, got);
}

ExprPtr ExpressionParser::make(Kind kind, std::string text) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = cursor_.peek().line;
  e->text = std::move(text);
  return e;
}

void ExpressionParser::adopt(Expr* parent, ExprPtr child) const {
  if (child != nullptr) parent->depth = std::max(parent->depth, child->depth + 1);
  if (parent->depth > kMaxTreeDepth) {
    syntax_error(cursor_.where(), parent->line,
                 fmt::format("an expression at most {} levels deep", kMaxTreeDepth),
                 "a deeper one");
  }
  parent->children.push_back(std::move(child));
}

ExprPtr ExpressionParser::binary(std::string op, ExprPtr left, ExprPtr right) const {
  ExprPtr e = make(Kind::binary, std::move(op));
  adopt(e.get(), std::move(left));
  adopt(e.get(), std::move(right));
  return e;
}

ExprPtr ExpressionParser::parse_tuple() {
  ExprPtr first = parse_expression();
  if (!cursor_.peek().is_op(",")) return first;
  ExprPtr list = make(Kind::list, "tuple");
  adopt(list.get(), std::move(first));
  while (cursor_.skip_op(",")) {
    Token::Kind next = cursor_.peek().kind;
    if (next == Token::Kind::block_end || next == Token::Kind::variable_end) break;
    adopt(list.get(), parse_expression());
  }
  return list;
}

ExprPtr ExpressionParser::parse_conditional() {
  Cursor::Level level(&cursor_);
  ExprPtr value = parse_or();
  while (cursor_.skip_name("if")) {
    ExprPtr e = make(Kind::conditional);
    adopt(e.get(), std::move(value));
    adopt(e.get(), parse_or());
    adopt(e.get(), cursor_.skip_name("else") ? parse_conditional() : nullptr);
    value = std::move(e);
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (cursor_.skip_name("or")) left = binary("or", std::move(left), parse_and());
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (cursor_.skip_name("and")) left = binary("and", std::move(left), parse_not());
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!cursor_.peek().is_name("not")) return parse_comparison();
  Cursor::Level level(&cursor_);
  ExprPtr e = make(Kind::unary, "not");
  cursor_.take();
  adopt(e.get(), parse_not());
  return e;
}

ExprPtr ExpressionParser::parse_comparison() {
  ExprPtr first = parse_sum();
  ExprPtr e;
  while (true) {
    std::string op;
    if (cursor_.peek().kind == Token::Kind::op &&
        one_of(cursor_.peek().text, {"==", "!=", "<", "<=", ">", ">="})) {
      op = cursor_.take().text;
    } else if (cursor_.skip_name("in")) {
      op = "in";
    } else if (cursor_.peek().is_name("not") && cursor_.peek(1).is_name("in")) {
      cursor_.take();
      cursor_.take();
      op = "not in";
    } else {
      return e == nullptr ? std::move(first) : std::move(e);
    }
    if (e == nullptr) {
      e = make(Kind::comparison);
      adopt(e.get(), std::move(first));
    }
    e->ops.push_back(std::move(op));
    adopt(e.get(), parse_sum());
  }
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (cursor_.peek().is_op("+") || cursor_.peek().is_op("-")) {
    std::string op = cursor_.take().text;
    left = binary(op, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr left = parse_product();
  while (cursor_.skip_op("~")) left = binary("~", std::move(left), parse_product());
  return left;
}

ExprPtr ExpressionParser::parse_product() {
  ExprPtr left = parse_power();
  while (cursor_.peek().kind == Token::Kind::op &&
         one_of(cursor_.peek().text, {"*", "/", "//", "%"})) {
    std::string op = cursor_.take().text;
    left = binary(op, std::move(left), parse_power());
  }
  return left;
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (cursor_.skip_op("**")) left = binary("**", std::move(left), parse_unary(true));
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  Cursor::Level level(&cursor_);
  ExprPtr value;
  if (cursor_.peek().is_op("-") || cursor_.peek().is_op("+")) {
    value = make(Kind::unary, cursor_.peek().text);
    cursor_.take();
    adopt(value.get(), parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

ExprPtr ExpressionParser::parse_string() {
  ExprPtr e = make(Kind::literal);
  std::string text;
  while (cursor_.peek().kind == Token::Kind::string) text += cursor_.take().text;
  e->value = Value::of(std::move(text));
  return e;
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& t = cursor_.peek();
  if (t.kind == Token::Kind::string) return parse_string();
  if (t.kind == Token::Kind::integer || t.kind == Token::Kind::real) {
    ExprPtr e = make(Kind::literal);
    e->value = t.kind == Token::Kind::real ? Value::of(t.real) : Value::of(t.integer);
    cursor_.take();
    return e;
  }
  if (t.kind == Token::Kind::name) {
    ExprPtr e = make(Kind::name, t.text);
    if (one_of(t.text, {"true", "True", "false", "False", "none", "None"})) {
      e->kind = Kind::literal;
      bool none = t.text == "none" || t.text == "None";
      e->value = none ? Value::none() : Value::of(t.text == "true" || t.text == "True");
    }
    cursor_.take();
    return e;
  }
  if (cursor_.skip_op("[")) return parse_list("]");
  if (cursor_.skip_op("{")) return parse_dict();
  if (!cursor_.skip_op("(")) cursor_.fail_at("an expression");
  if (cursor_.peek().is_op(")")) return parse_list(")");
  ExprPtr first = parse_expression();
  if (!cursor_.peek().is_op(",")) {
    cursor_.expect_op(")");
    return first;
  }
  cursor_.take();
  ExprPtr rest = parse_list(")");
  rest->depth = std::max(rest->depth, first->depth + 1);
  rest->children.insert(rest->children.begin(), std::move(first));
  return rest;
}

ExprPtr ExpressionParser::parse_list(std::string_view close) {
  ExprPtr e = make(Kind::list, close == ")" ? "tuple" : "");
  while (!cursor_.skip_op(close)) {
    adopt(e.get(), parse_expression());
    if (!cursor_.peek().is_op(close)) cursor_.expect_op(",");
  }
  return e;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr e = make(Kind::dict);
  while (!cursor_.skip_op("}")) {
    adopt(e.get(), parse_expression());
    cursor_.expect_op(":");
    adopt(e.get(), parse_expression());
    if (!cursor_.peek().is_op("}")) cursor_.expect_op(",");
  }
  return e;
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr value) {
  while (true) {
    if (cursor_.skip_op(".")) {
      const Token& t = cursor_.peek();
      bool index = t.kind == Token::Kind::integer;
      if (!index && t.kind != Token::Kind::name) cursor_.fail_at("an attribute's name");
      ExprPtr e = make(index ? Kind::item : Kind::attribute, t.text);
      adopt(e.get(), std::move(value));
      if (index) {
        ExprPtr number = make(Kind::literal);
        number->value = Value::of(t.integer);
        adopt(e.get(), std::move(number));
      }
      cursor_.take();
      value = std::move(e);
    } else if (cursor_.skip_op("[")) {
      value = parse_subscript(std::move(value));
    } else if (cursor_.peek().is_op("(")) {
      ExprPtr e = make(Kind::call);
      adopt(e.get(), std::move(value));
      parse_arguments(e.get());
      value = std::move(e);
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr value) {
  ExprPtr e = make(Kind::item);
  adopt(e.get(), std::move(value));
  ExprPtr parts[3];
  size_t colons = 0;
  while (!cursor_.peek().is_op("]")) {
    if (cursor_.skip_op(":")) {
      if (++colons > 2) cursor_.fail_at("']'");
    } else if (parts[colons] == nullptr) {
      parts[colons] = parse_expression();
    } else {
      cursor_.fail_at("']'");
    }
  }
  cursor_.expect_op("]");
  if (colons == 0) {
    if (parts[0] == nullptr) cursor_.fail_at("an index");
    adopt(e.get(), std::move(parts[0]));
    return e;
  }
  e->kind = Kind::slice;
  for (ExprPtr& part : parts) adopt(e.get(), std::move(part));
  return e;
}

void ExpressionParser::parse_arguments(Expr* call) {
  cursor_.expect_op("(");
  while (!cursor_.skip_op(")")) {
    if (cursor_.peek().is_op("*") || cursor_.peek().is_op("**")) {
      unsupported(cursor_.where(), cursor_.peek().line, "unpacked arguments (*)");
    }
    if (cursor_.peek().kind == Token::Kind::name && cursor_.peek(1).is_op("=")) {
      std::string name = cursor_.take().text;
      cursor_.take();
      ExprPtr value = parse_expression();
      call->depth = std::max(call->depth, value->depth + 1);
      call->named.emplace_back(std::move(name), std::move(value));
    } else if (!call->named.empty()) {
      cursor_.fail_at("a named argument");
    } else {
      adopt(call, parse_expression());
    }
    if (!cursor_.peek().is_op(")")) cursor_.expect_op(",");
  }
}

ExprPtr ExpressionParser::parse_filters(ExprPtr value) {
  while (true) {
    if (cursor_.skip_op("|")) {
      ExprPtr e = make(Kind::filter, cursor_.expect_name("a filter's name"));
      while (cursor_.skip_op(".")) e->text += "." + cursor_.expect_name("a filter's name");
      adopt(e.get(), std::move(value));
      if (cursor_.peek().is_op("(")) parse_arguments(e.get());
      value = std::move(e);
    } else if (cursor_.skip_name("is")) {
      value = parse_test(std::move(value));
    } else if (cursor_.peek().is_op("(")) {
      ExprPtr e = make(Kind::call);
      adopt(e.get(), std::move(value));
      parse_arguments(e.get());
      value = std::move(e);
    } else {
      return value;
    }
  }
}

bool ExpressionParser::test_argument_follows() const {
  const Token& t = cursor_.peek();
  switch (t.kind) {
    case Token::Kind::string:
    case Token::Kind::integer:
    case Token::Kind::real:
      return true;
    case Token::Kind::name:
      return !one_of(t.text, {"else", "or", "and", "is", "if", "in", "not"});
    default:
      return t.is_op("[") || t.is_op("{");
  }
}

ExprPtr ExpressionParser::parse_test(ExprPtr value) {
  bool negated = cursor_.skip_name("not");
  ExprPtr e = make(Kind::test, cursor_.expect_name("a test's name"));
  adopt(e.get(), std::move(value));
  if (cursor_.peek().is_op("(")) {
    parse_arguments(e.get());
  } else if (test_argument_follows()) {
    adopt(e.get(), parse_postfix(parse_primary()));
  }
  if (!negated) return e;
  ExprPtr inverse = make(Kind::unary, "not");
  adopt(inverse.get(), std::move(e));
  return inverse;
}

}  // namespace strata::data::jinja
