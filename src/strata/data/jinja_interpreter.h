// Runs the syntax tree of a chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/data/jinja_builtins.h"
#include "strata/data/jinja_syntax.h"
#include "strata/data/marked_text.h"

namespace strata::data::jinja {

// A stretch of the output, in bytes.
struct Stretch {
  size_t begin = 0;
  size_t end = 0;
};

// The stretch that was written while a loop visited one message.
struct TurnOutput {
  int32_t message = 0;
  Stretch stretch;
};

struct Output {
  MarkedText text;
  std::vector<TurnOutput> turns;   // in order; a message may have none
  std::vector<Stretch> generated;  // what {% generation %} enclosed
};

using Variables = std::vector<std::pair<std::string, Value>>;

// Runs `program` with `variables`. `now` is what strftime_now formats. Throws the errors of
// jinja_builtins.h, failed_precondition (id "chat_template.raised") for raise_exception, and
// resource_exhausted (id "chat_template.limit") when the work, the output or the recursion grow
// beyond their bounds: no template hangs or exhausts memory or stack.
Output interpret(const Block& program, Variables variables, int64_t now, const std::string& where);

}  // namespace strata::data::jinja
