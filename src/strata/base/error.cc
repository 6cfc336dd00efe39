#include "strata/base/error.h"

#include <array>
#include <utility>

namespace strata {

std::string_view name_of(Code code) {
  constexpr std::array<std::string_view, 17> kNames = {"ok",
                                                       "cancelled",
                                                       "unknown",
                                                       "invalid_argument",
                                                       "deadline_exceeded",
                                                       "not_found",
                                                       "already_exists",
                                                       "permission_denied",
                                                       "resource_exhausted",
                                                       "failed_precondition",
                                                       "aborted",
                                                       "out_of_range",
                                                       "unimplemented",
                                                       "internal",
                                                       "unavailable",
                                                       "data_loss",
                                                       "unauthenticated"};
  return kNames.at(static_cast<size_t>(code));
}

Error::Error(Code code, std::string id, std::string message)
    : code_(code), id_(std::move(id)), message_(std::move(message)), text_(message_) {}

void Error::add_context(std::string line) {
  text_ += "\n  " + line;
  context_.push_back(std::move(line));
}

std::string describe(const Problem& p) {
  std::string text;
  if (!p.where.empty()) text += p.where + ": ";
  if (!p.expected.empty()) text += "expected " + p.expected;
  if (!p.got.empty()) text += (p.expected.empty() ? "" : ", got ") + p.got;
  if (!p.cure.empty()) text += ". " + p.cure;
  text += " [" + std::string(p.id) + "]";
  return text;
}

void fail(const Problem& problem) {
  throw Error(problem.code, std::string(problem.id), describe(problem));
}

void unimplemented(Problem problem) {
  problem.code = Code::unimplemented;
  fail(problem);
}

}  // namespace strata
