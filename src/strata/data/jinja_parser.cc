#include <fmt/format.h>

#include "strata/base/error.h"
#include "strata/data/jinja_expressions.h"

namespace strata::data::jinja {
namespace {

class Parser {
 public:
  Parser(std::string_view source, const std::string& where)
      : cursor_(lex(source, where), where), expressions_(&cursor_) {}

  Block run() {
    Block block = parse_block({});
    if (cursor_.peek().kind != Token::Kind::end) cursor_.fail_at("the end of the template");
    return block;
  }

 private:
  Block parse_block(std::initializer_list<std::string_view> ends);
  Stmt parse_output();
  Stmt parse_statement();
  Stmt parse_if();
  Stmt parse_for();
  Stmt parse_set();
  Stmt parse_macro();
  Stmt parse_body(Stmt::Kind kind, std::string_view end);
  std::vector<std::string> parse_targets();
  // Whether `{% name` stands next; consumes it if so.
  bool skip_block(std::string_view name) {
    bool begins = cursor_.peek().kind == Token::Kind::block_begin;
    if (!begins || !cursor_.peek(1).is_name(name)) return false;
    cursor_.take();
    cursor_.take();
    return true;
  }
  void expect_block(std::string_view name) {
    if (!skip_block(name)) cursor_.fail_at(fmt::format("{{% {} %}}", name));
    cursor_.expect_end_of_block();
  }

  Cursor cursor_;
  ExpressionParser expressions_;
};

Block Parser::parse_block(std::initializer_list<std::string_view> ends) {
  Cursor::Level level(&cursor_);
  Block block;
  while (true) {
    const Token& t = cursor_.peek();
    if (t.kind == Token::Kind::end) return block;
    if (t.kind == Token::Kind::text) {
      Stmt s;
      s.line = t.line;
      s.text = cursor_.take().text;
      block.push_back(std::move(s));
    } else if (t.kind == Token::Kind::variable_begin) {
      block.push_back(parse_output());
    } else {
      if (cursor_.peek(1).kind == Token::Kind::name && one_of(cursor_.peek(1).text, ends))
        return block;
      cursor_.take();  // {%
      block.push_back(parse_statement());
    }
  }
}

Stmt Parser::parse_output() {
  Stmt s;
  s.kind = Stmt::Kind::output;
  s.line = cursor_.take().line;
  s.value = expressions_.parse_tuple();
  if (cursor_.peek().kind != Token::Kind::variable_end) cursor_.fail_at("'}}'");
  cursor_.take();
  return s;
}

Stmt Parser::parse_statement() {
  int line = cursor_.peek().line;
  std::string word = cursor_.expect_name("a statement");
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
    cursor_.expect_end_of_block();
    s = parse_body(Stmt::Kind::generation, "endgeneration");
  } else if (word == "break" || word == "continue") {
    s.kind = word == "break" ? Stmt::Kind::stop : Stmt::Kind::next;
    cursor_.expect_end_of_block();
  } else if (one_of(word, {"include", "import", "from", "extends", "block", "call", "filter",
                           "with", "do", "autoescape", "trans", "debug"})) {
    unsupported(cursor_.where(), line, "{% " + word + " %}");
  } else {
    syntax_error(cursor_.where(), line, "a statement", "'" + word + "'");
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
    arm.condition = expressions_.parse_tuple();
    cursor_.expect_end_of_block();
    arm.body = parse_block({"elif", "else", "endif"});
    s.arms.push_back(std::move(arm));
    if (skip_block("elif")) continue;
    if (skip_block("else")) {
      cursor_.expect_end_of_block();
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
  bool bracket = cursor_.skip_op("(");
  do {
    targets.push_back(cursor_.expect_name("a variable's name"));
  } while (cursor_.skip_op(","));
  if (bracket) cursor_.expect_op(")");
  return targets;
}

Stmt Parser::parse_for() {
  Stmt s;
  s.kind = Stmt::Kind::loop;
  s.targets = parse_targets();
  if (!cursor_.skip_name("in")) cursor_.fail_at("'in'");
  // Without the conditional: its `if` is the loop's filter.
  s.value = expressions_.parse_or();
  if (cursor_.skip_name("if")) s.condition = expressions_.parse_expression();
  if (cursor_.peek().is_name("recursive"))
    unsupported(cursor_.where(), cursor_.peek().line, "a recursive for loop");
  cursor_.expect_end_of_block();
  s.body = parse_block({"else", "endfor"});
  if (skip_block("else")) {
    cursor_.expect_end_of_block();
    s.otherwise = parse_block({"endfor"});
  }
  expect_block("endfor");
  return s;
}

Stmt Parser::parse_set() {
  Stmt s;
  s.kind = Stmt::Kind::set;
  s.targets = parse_targets();
  if (s.targets.size() == 1 && cursor_.skip_op("."))
    s.attribute = cursor_.expect_name("an attribute's name");
  if (cursor_.skip_op("=")) {
    s.value = expressions_.parse_tuple();
    cursor_.expect_end_of_block();
    return s;
  }
  if (cursor_.peek().is_op("|"))
    unsupported(cursor_.where(), cursor_.peek().line, "a filter on {% set %}");
  if (s.targets.size() != 1 || !s.attribute.empty()) cursor_.fail_at("'='");
  cursor_.expect_end_of_block();
  Stmt block = parse_body(Stmt::Kind::set_block, "endset");
  block.targets = std::move(s.targets);
  return block;
}

Stmt Parser::parse_macro() {
  auto macro = std::make_unique<MacroDefinition>();
  macro->name = cursor_.expect_name("a macro's name");
  cursor_.expect_op("(");
  while (!cursor_.skip_op(")")) {
    if (!macro->parameters.empty()) cursor_.expect_op(",");
    macro->parameters.push_back(cursor_.expect_name("a parameter"));
    if (cursor_.skip_op("=")) {
      macro->defaults.push_back(expressions_.parse_expression());
    } else if (!macro->defaults.empty()) {
      cursor_.fail_at("a default value, as the parameter before has one");
    }
  }
  cursor_.expect_end_of_block();
  Stmt s = parse_body(Stmt::Kind::macro, "endmacro");
  macro->body = std::move(s.body);
  s.macro = std::move(macro);
  return s;
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
