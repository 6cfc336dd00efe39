// The syntax tree of a chat template, and the parser that makes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/data/jinja_value.h"

namespace strata::data::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// Trees nest no deeper than this.
inline constexpr int kMaxTreeDepth = 150;

struct Expr {
  enum class Kind {
    literal,      // value
    name,         // text
    list,         // children; text "tuple" if it is one
    dict,         // children: key, value, key, value, …
    attribute,    // children[0] . text
    item,         // children[0] [ children[1] ]
    slice,        // children[0] [ children[1] : children[2] : children[3] ], null where absent
    call,         // children[0] ( children[1…], named )
    filter,       // children[0] | text ( children[1…], named )
    test,         // children[0] is text ( children[1…] )
    unary,        // text: "not", "-", "+"
    binary,       // text: + - * / // % ** ~ and or
    comparison,   // children[0] ops[0] children[1] ops[1] …
    conditional,  // children[0] if children[1] else children[2] (null where absent)
  };
  Kind kind = Kind::literal;
  int line = 0;
  int depth = 1;
  std::string text;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<std::pair<std::string, ExprPtr>> named;
  std::vector<std::string> ops;
};

struct Stmt;
using Block = std::vector<Stmt>;

// One arm of an if; `condition` is null for else.
struct Arm {
  ExprPtr condition;
  Block body;
};

struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Block body;
};

struct Stmt {
  enum class Kind {
    text,        // text as it is
    output,      // {{ value }}
    branch,      // arms
    loop,        // for targets in value if condition: body, else otherwise
    set,         // targets = value; attribute: targets[0].attribute = value
    set_block,   // targets[0] = body
    macro,       // macro
    generation,  // body is what the assistant generates
    stop,        // break
    next,        // continue
  };
  Kind kind = Kind::text;
  int line = 0;
  std::string text;
  std::string attribute;
  std::vector<std::string> targets;
  ExprPtr value;
  ExprPtr condition;
  std::vector<Arm> arms;
  Block body;
  Block otherwise;
  std::unique_ptr<MacroDefinition> macro;
};

// Parses with HF's settings: trim_blocks and lstrip_blocks on, one trailing newline dropped.
// Throws invalid_argument (id "chat_template.syntax") naming `where`:line for what is not Jinja,
// unimplemented (id "chat_template.unsupported") naming the construct and line for what is Jinja
// but outside the subset.
Block parse(std::string_view source, const std::string& where);

// The error for what the subset leaves out.
[[noreturn]] void unsupported(const std::string& where, int line, const std::string& construct);

}  // namespace strata::data::jinja
