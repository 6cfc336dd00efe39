// Errors: one exception type, the sixteen canonical codes that PJRT uses, and three ways to raise
// it that are never mixed:
//   require(cond, problem)    the caller or the input is wrong;
//   unimplemented(problem)    a lawful request that Strata or the plug-in does not serve;
//   invariant(cond, problem)  Strata itself is wrong.
//
// A message has five parts: where (file, op, module path, byte offset), what was expected, what
// came, the cure if one is known, and a stable id by which tests find it.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// Numbered as PJRT_Error_Code.
enum class Code {
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

std::string_view name_of(Code code);

// What went wrong, in parts. `id` is "room.what" and stays the same when the wording changes.
struct Problem {
  std::string_view id;
  std::string where = {};
  std::string expected = {};
  std::string got = {};
  std::string cure = {};
  Code code = Code::invalid_argument;
};

class Error : public std::exception {
 public:
  Error(Code code, std::string id, std::string message);

  Code code() const { return code_; }
  const std::string& id() const { return id_; }
  // The message without its context lines.
  const std::string& message() const { return message_; }
  const std::vector<std::string>& context() const { return context_; }
  // Appends a line such as "while loading model/config.json". Added in four places only: tracing
  // a module, compiling a function, loading a file, running a step.
  void add_context(std::string line);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Code code_;
  std::string id_;
  std::string message_;
  std::vector<std::string> context_;
  std::string text_;
};

// "where: expected E, got G. Cure. [id]", leaving out the parts that are empty.
std::string describe(const Problem& problem);

[[noreturn]] void fail(const Problem& problem);
[[noreturn]] void unimplemented(Problem problem);

// Throws Error(problem.code) unless `cond`. On hot paths write `if (!cond) fail({…})` instead, so
// that the strings are not built.
inline void require(bool cond, const Problem& problem) {
  if (!cond) fail(problem);
}

// Throws Error(internal): a fault of ours, never of the input.
inline void invariant(bool cond, std::string_view id, std::string_view what) {
  if (cond) return;
  fail({.id = id,
        .expected = std::string(what),
        .got = "a broken invariant (a bug in Strata)",
        .code = Code::internal});
}

}  // namespace strata
