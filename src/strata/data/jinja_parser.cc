#include <fmt/format.h>

#include <algorithm>

#include "strata/base/error.h"
#include "strata/data/jinja_lexer.h"
#include "strata/data/jinja_syntax.h"

namespace strata::data::jinja {
namespace {

using Kind = Expr::Kind;

// Nested blocks and brackets that the parser follows by recursion.
constexpr int kMaxRecursion = 100;

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

class Parser {
 public:
  Parser(std::string_view source, const std::string& where)
      : tokens_(lex(source, where)), where_(where) {}

  Block run() {
    Block block = parse_block({});
    if (peek().kind != Token::Kind::end) fail_at("the end of the template");
    return block;
  }

 private:
  // Counts recursion; the destructor counts back.
  struct Level {
    explicit Level(Parser* p) : parser(p) {
      if (++parser->level_ > kMaxRecursion) {
        syntax_error(parser->where_, parser->peek().line,
                     fmt::format("at most {} nested levels", kMaxRecursion), "more");
      }
    }
    ~Level() { --parser->level_; }
    Parser* parser;
  };

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token take() {
    Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_op(std::string_view op) {
    if (!peek().is_op(op)) return false;
    take();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!peek().is_name(name)) return false;
    take();
    return true;
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail_at(fmt::format("'{}'", op));
  }
  std::string expect_name(const char* what) {
    if (peek().kind != Token::Kind::name) fail_at(what);
    return take().text;
  }
  void expect_end_of_block() {
    if (peek().kind != Token::Kind::block_end) fail_at("'%}'");
    take();
  }
  [[noreturn]] void fail_at(const std::string& expected) const {
    const Token& t = peek();
    std::string got = t.kind == Token::Kind::end         ? "the end of the template"
                      : t.kind == Token::Kind::block_end ? "'%}'"
                      : t.kind == Token::Kind::text      ? "text"
                      : t.text.empty()                   ? "another token"
                                                         : "'" + t.text.substr(0, 40) + "'";
    syntax_error(where_, t.line, expected, got);
  }

  // Statements.
  Block parse_block(std::initializer_list<std::string_view> ends);
  Stmt parse_statement();
  Stmt parse_if();
  Stmt parse_for();
  Stmt parse_set();
  Stmt parse_macro();
  Stmt parse_body(Stmt::Kind kind, std::string_view end);
  std::vector<std::string> parse_targets();
  // Whether `{% name` stands next; consumes it if so.
  bool skip_block(std::string_view name) {
    if (peek().kind != Token::Kind::block_begin || !peek(1).is_name(name)) return false;
    take();
    take();
    return true;
  }
  void expect_block(std::string_view name) {
    if (!skip_block(name)) fail_at(fmt::format("{{% {} %}}", name));
    expect_end_of_block();
  }

  // Expressions, loosest first.
  ExprPtr parse_expression() { return parse_conditional(); }
  ExprPtr parse_tuple();
  ExprPtr parse_conditional();
  ExprPtr parse_or();
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

  ExprPtr make(Kind kind, std::string text = {}) const {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = peek().line;
    e->text = std::move(text);
    return e;
  }
  void adopt(Expr* parent, ExprPtr child) const {
    if (child != nullptr) parent->depth = std::max(parent->depth, child->depth + 1);
    if (parent->depth > kMaxTreeDepth) {
      syntax_error(where_, parent->line,
                   fmt::format("an expression at most {} levels deep", kMaxTreeDepth),
                   "a deeper one");
    }
    parent->children.push_back(std::move(child));
  }
  ExprPtr binary(std::string op, ExprPtr left, ExprPtr right) const {
    ExprPtr e = make(Kind::binary, std::move(op));
    adopt(e.get(), std::move(left));
    adopt(e.get(), std::move(right));
    return e;
  }

  std::vector<Token> tokens_;
  const std::string& where_;
  size_t at_ = 0;
  int level_ = 0;
};

Block Parser::parse_block(std::initializer_list<std::string_view> ends) {
  Level level(this);
  Block block;
  while (true) {
    const Token& t = peek();
    if (t.kind == Token::Kind::end) return block;
    if (t.kind == Token::Kind::text) {
      Stmt s;
      s.line = t.line;
      s.text = take().text;
      block.push_back(std::move(s));
    } else if (t.kind == Token::Kind::variable_begin) {
      Stmt s;
      s.kind = Stmt::Kind::output;
      s.line = take().line;
      s.value = parse_tuple();
      if (peek().kind != Token::Kind::variable_end) fail_at("'}}'");
      take();
      block.push_back(std::move(s));
    } else {
      if (peek(1).kind == Token::Kind::name && one_of(peek(1).text, ends)) return block;
      take();  // {%
      block.push_back(parse_statement());
    }
  }
}

Stmt Parser::parse_statement() {
  int line = peek().line;
  std::string word = expect_name("a statement");
  Stmt s;
  if (word == "if") {
    s = parse_if();
  } else if (word == "for") {
    s = parse_for();
  } else if (word == "set") {
    s = parse_set();
  } else if (word == "macro") {
    s = parse_macro();
  } else if (word == "generation") {
    expect_end_of_block();
    s = parse_body(Stmt::Kind::generation, "endgeneration");
  } else if (word == "break" || word == "continue") {
    s.kind = word == "break" ? Stmt::Kind::stop : Stmt::Kind::next;
    expect_end_of_block();
  } else if (one_of(word, {"include", "import", "from", "extends", "block", "call", "filter",
                           "with", "do", "autoescape", "trans", "debug"})) {
    unsupported(where_, line, "{% " + word + " %}");
  } else {
    syntax_error(where_, line, "a statement", "'" + word + "'");
  }
  s.line = line;
  return s;
}

Stmt Parser::parse_body(Stmt::Kind kind, std::string_view end) {
  Stmt s;
  s.kind = kind;
  s.body = parse_block({end});
  expect_block(end);
  return s;
}

Stmt Parser::parse_if() {
  Stmt s;
  s.kind = Stmt::Kind::branch;
  while (true) {
    Arm arm;
    arm.condition = parse_tuple();
    expect_end_of_block();
    arm.body = parse_block({"elif", "else", "endif"});
    s.arms.push_back(std::move(arm));
    if (skip_block("elif")) continue;
    if (skip_block("else")) {
      expect_end_of_block();
      Arm last;
      last.body = parse_block({"endif"});
      s.arms.push_back(std::move(last));
    }
    expect_block("endif");
    return s;
  }
}

std::vector<std::string> Parser::parse_targets() {
  std::vector<std::string> targets;
  bool bracket = skip_op("(");
  do {
    targets.push_back(expect_name("a variable's name"));
  } while (skip_op(","));
  if (bracket) expect_op(")");
  return targets;
}

Stmt Parser::parse_for() {
  Stmt s;
  s.kind = Stmt::Kind::loop;
  s.targets = parse_targets();
  if (!skip_name("in")) fail_at("'in'");
  // Without the conditional: its `if` is the loop's filter.
  s.value = parse_or();
  if (skip_name("if")) s.condition = parse_expression();
  if (peek().is_name("recursive")) unsupported(where_, peek().line, "a recursive for loop");
  expect_end_of_block();
  s.body = parse_block({"else", "endfor"});
  if (skip_block("else")) {
    expect_end_of_block();
    s.otherwise = parse_block({"endfor"});
  }
  expect_block("endfor");
  return s;
}

Stmt Parser::parse_set() {
  Stmt s;
  s.kind = Stmt::Kind::set;
  s.targets = parse_targets();
  if (s.targets.size() == 1 && skip_op(".")) s.attribute = expect_name("an attribute's name");
  if (skip_op("=")) {
    s.value = parse_tuple();
    expect_end_of_block();
    return s;
  }
  if (peek().is_op("|")) unsupported(where_, peek().line, "a filter on {% set %}");
  if (s.targets.size() != 1 || !s.attribute.empty()) fail_at("'='");
  expect_end_of_block();
  Stmt block = parse_body(Stmt::Kind::set_block, "endset");
  block.targets = std::move(s.targets);
  return block;
}

Stmt Parser::parse_macro() {
  auto macro = std::make_unique<MacroDefinition>();
  macro->name = expect_name("a macro's name");
  expect_op("(");
  while (!skip_op(")")) {
    if (!macro->parameters.empty()) expect_op(",");
    macro->parameters.push_back(expect_name("a parameter"));
    if (skip_op("=")) {
      macro->defaults.push_back(parse_expression());
    } else if (!macro->defaults.empty()) {
      fail_at("a default value, as the parameter before has one");
    }
  }
  expect_end_of_block();
  Stmt s = parse_body(Stmt::Kind::macro, "endmacro");
  macro->body = std::move(s.body);
  s.macro = std::move(macro);
  return s;
}

ExprPtr Parser::parse_tuple() {
  ExprPtr first = parse_expression();
  if (!peek().is_op(",")) return first;
  ExprPtr list = make(Kind::list, "tuple");
  adopt(list.get(), std::move(first));
  while (skip_op(",")) {
    Token::Kind next = peek().kind;
    if (next == Token::Kind::block_end || next == Token::Kind::variable_end) break;
    adopt(list.get(), parse_expression());
  }
  return list;
}

ExprPtr Parser::parse_conditional() {
  Level level(this);
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ExprPtr e = make(Kind::conditional);
    adopt(e.get(), std::move(value));
    adopt(e.get(), parse_or());
    adopt(e.get(), skip_name("else") ? parse_conditional() : nullptr);
    value = std::move(e);
  }
  return value;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (skip_name("or")) left = binary("or", std::move(left), parse_and());
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (skip_name("and")) left = binary("and", std::move(left), parse_not());
  return left;
}

ExprPtr Parser::parse_not() {
  if (!peek().is_name("not")) return parse_comparison();
  Level level(this);
  ExprPtr e = make(Kind::unary, "not");
  take();
  adopt(e.get(), parse_not());
  return e;
}

ExprPtr Parser::parse_comparison() {
  ExprPtr first = parse_sum();
  ExprPtr e;
  while (true) {
    std::string op;
    if (peek().kind == Token::Kind::op && one_of(peek().text, {"==", "!=", "<", "<=", ">", ">="})) {
      op = take().text;
    } else if (skip_name("in")) {
      op = "in";
    } else if (peek().is_name("not") && peek(1).is_name("in")) {
      take();
      take();
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

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (peek().is_op("+") || peek().is_op("-")) {
    std::string op = take().text;
    left = binary(op, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr left = parse_product();
  while (skip_op("~")) left = binary("~", std::move(left), parse_product());
  return left;
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (peek().kind == Token::Kind::op && one_of(peek().text, {"*", "/", "//", "%"})) {
    std::string op = take().text;
    left = binary(op, std::move(left), parse_power());
  }
  return left;
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (skip_op("**")) left = binary("**", std::move(left), parse_unary(true));
  return left;
}

ExprPtr Parser::parse_unary(bool with_filters) {
  Level level(this);
  ExprPtr value;
  if (peek().is_op("-") || peek().is_op("+")) {
    value = make(Kind::unary, peek().text);
    take();
    adopt(value.get(), parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

ExprPtr Parser::parse_string() {
  ExprPtr e = make(Kind::literal);
  std::string text;
  while (peek().kind == Token::Kind::string) text += take().text;
  e->value = Value::of(std::move(text));
  return e;
}

ExprPtr Parser::parse_primary() {
  const Token& t = peek();
  if (t.kind == Token::Kind::string) return parse_string();
  if (t.kind == Token::Kind::integer || t.kind == Token::Kind::real) {
    ExprPtr e = make(Kind::literal);
    e->value = t.kind == Token::Kind::real ? Value::of(t.real) : Value::of(t.integer);
    take();
    return e;
  }
  if (t.kind == Token::Kind::name) {
    ExprPtr e = make(Kind::name, t.text);
    if (one_of(t.text, {"true", "True", "false", "False", "none", "None"})) {
      e->kind = Kind::literal;
      bool none = t.text == "none" || t.text == "None";
      e->value = none ? Value::none() : Value::of(t.text == "true" || t.text == "True");
    }
    take();
    return e;
  }
  if (skip_op("[")) return parse_list("]");
  if (skip_op("{")) return parse_dict();
  if (!skip_op("(")) fail_at("an expression");
  if (peek().is_op(")")) return parse_list(")");
  ExprPtr first = parse_expression();
  if (!peek().is_op(",")) {
    expect_op(")");
    return first;
  }
  take();
  ExprPtr rest = parse_list(")");
  rest->depth = std::max(rest->depth, first->depth + 1);
  rest->children.insert(rest->children.begin(), std::move(first));
  return rest;
}

ExprPtr Parser::parse_list(std::string_view close) {
  ExprPtr e = make(Kind::list, close == ")" ? "tuple" : "");
  while (!skip_op(close)) {
    adopt(e.get(), parse_expression());
    if (!peek().is_op(close)) expect_op(",");
  }
  return e;
}

ExprPtr Parser::parse_dict() {
  ExprPtr e = make(Kind::dict);
  while (!skip_op("}")) {
    adopt(e.get(), parse_expression());
    expect_op(":");
    adopt(e.get(), parse_expression());
    if (!peek().is_op("}")) expect_op(",");
  }
  return e;
}

ExprPtr Parser::parse_postfix(ExprPtr value) {
  while (true) {
    if (skip_op(".")) {
      const Token& t = peek();
      bool index = t.kind == Token::Kind::integer;
      if (!index && t.kind != Token::Kind::name) fail_at("an attribute's name");
      ExprPtr e = make(index ? Kind::item : Kind::attribute, t.text);
      adopt(e.get(), std::move(value));
      if (index) {
        ExprPtr number = make(Kind::literal);
        number->value = Value::of(t.integer);
        adopt(e.get(), std::move(number));
      }
      take();
      value = std::move(e);
    } else if (skip_op("[")) {
      value = parse_subscript(std::move(value));
    } else if (peek().is_op("(")) {
      ExprPtr e = make(Kind::call);
      adopt(e.get(), std::move(value));
      parse_arguments(e.get());
      value = std::move(e);
    } else {
      return value;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr value) {
  ExprPtr e = make(Kind::item);
  adopt(e.get(), std::move(value));
  ExprPtr parts[3];
  size_t colons = 0;
  while (!peek().is_op("]")) {
    if (skip_op(":")) {
      if (++colons > 2) fail_at("']'");
    } else if (parts[colons] == nullptr) {
      parts[colons] = parse_expression();
    } else {
      fail_at("']'");
    }
  }
  expect_op("]");
  if (colons == 0) {
    if (parts[0] == nullptr) fail_at("an index");
    adopt(e.get(), std::move(parts[0]));
    return e;
  }
  e->kind = Kind::slice;
  for (ExprPtr& part : parts) adopt(e.get(), std::move(part));
  return e;
}

void Parser::parse_arguments(Expr* call) {
  expect_op("(");
  while (!skip_op(")")) {
    if (peek().is_op("*") || peek().is_op("**")) {
      unsupported(where_, peek().line, "unpacked arguments (*)");
    }
    if (peek().kind == Token::Kind::name && peek(1).is_op("=")) {
      std::string name = take().text;
      take();
      ExprPtr value = parse_expression();
      call->depth = std::max(call->depth, value->depth + 1);
      call->named.emplace_back(std::move(name), std::move(value));
    } else if (!call->named.empty()) {
      fail_at("a named argument");
    } else {
      adopt(call, parse_expression());
    }
    if (!peek().is_op(")")) expect_op(",");
  }
}

ExprPtr Parser::parse_filters(ExprPtr value) {
  while (true) {
    if (skip_op("|")) {
      ExprPtr e = make(Kind::filter, expect_name("a filter's name"));
      while (skip_op(".")) e->text += "." + expect_name("a filter's name");
      adopt(e.get(), std::move(value));
      if (peek().is_op("(")) parse_arguments(e.get());
      value = std::move(e);
    } else if (skip_name("is")) {
      value = parse_test(std::move(value));
    } else if (peek().is_op("(")) {
      ExprPtr e = make(Kind::call);
      adopt(e.get(), std::move(value));
      parse_arguments(e.get());
      value = std::move(e);
    } else {
      return value;
    }
  }
}

bool Parser::test_argument_follows() const {
  const Token& t = peek();
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

ExprPtr Parser::parse_test(ExprPtr value) {
  bool negated = skip_name("not");
  ExprPtr e = make(Kind::test, expect_name("a test's name"));
  adopt(e.get(), std::move(value));
  if (peek().is_op("(")) {
    parse_arguments(e.get());
  } else if (test_argument_follows()) {
    adopt(e.get(), parse_postfix(parse_primary()));
  }
  if (!negated) return e;
  ExprPtr inverse = make(Kind::unary, "not");
  adopt(inverse.get(), std::move(e));
  return inverse;
}

}  // namespace

Block parse(std::string_view source, const std::string& where) {
  return Parser(source, where).run();
}

void unsupported(const std::string& where, int line, const std::string& construct) {
  unimplemented({.id = "chat_template.unsupported",
                 .where = at_line(where, line),
                 .expected = "the part of Jinja that chat templates commonly use",
                 .got = construct,
                 .cure = "Render the text elsewhere and give it as {\"prompt\", \"completion\"} or "
                         "{\"text\"} lines, or as a plain prompt"});
}

}  // namespace strata::data::jinja
