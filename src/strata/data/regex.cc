#include "strata/data/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "strata/base/error.h"

namespace strata::data {
namespace {

// Bounds the work of one match, so that no pattern hangs.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackMost = 64 * 1024 * 1024;

// Oniguruma's word characters; below U+0100 it counts superscripts and fractions as well.
constexpr std::string_view kWordClass =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

[[noreturn]] void unsupported(std::string_view pattern, size_t at, const std::string& where,
                              std::string_view what) {
  unimplemented({.id = "tokenizer.regex_unsupported",
                 .where = fmt::format("{}, pattern '{}' at {}", where, pattern, at),
                 .expected = "a regular expression that PCRE2 reads as HF tokenizers does",
                 .got = std::string(what),
                 .cure = "Rewrite the pattern in tokenizer.json without it"});
}

// The translation of the escape `c`; empty when PCRE2 means the same by it.
std::string escape_text(char c, bool in_class, std::string_view pattern, size_t at,
                        const std::string& where) {
  switch (c) {
    case 's':
      return "\\p{White_Space}";
    case 'w':
      return in_class ? std::string(kWordClass) : fmt::format("[{}]", kWordClass);
    case 'S':
      return "\\P{White_Space}";
    case 'W':
      if (in_class) unsupported(pattern, at, where, "\\W inside a class");
      return fmt::format("[^{}]", kWordClass);
    case 'h':
    case 'H':
      unsupported(pattern, at, where, "\\h (a hexadecimal digit there, white space in PCRE2)");
    default:
      return {};
  }
}

std::string error_text(int code) {
  PCRE2_UCHAR buffer[200];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

// Frees what PCRE2 allocates.
struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

}  // namespace

std::string translate_pattern(std::string_view pattern, const std::string& where) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && i + 1 < pattern.size()) {
      std::string text = escape_text(next, in_class, pattern, i, where);
      out += text.empty() ? std::string(pattern.substr(i, 2)) : text;
      ++i;
      continue;
    }
    out.push_back(c);
    if (!in_class && c == '[') {
      in_class = true;
      // A bracket that stands first is itself a member.
      if (next == '^') out.push_back(pattern[++i]);
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out.push_back(pattern[++i]);
    } else if (in_class && c == ']') {
      in_class = false;
    } else if (in_class && c == '[' && next != ':') {
      unsupported(pattern, i, where, "a class inside a class");
    } else if (in_class && c == '[') {
      size_t end = pattern.find(":]", i + 2);
      if (end == std::string_view::npos) unsupported(pattern, i, where, "a class inside a class");
      out += pattern.substr(i + 1, end + 1 - i);
      i = end + 1;
    } else if (in_class && c == '&' && next == '&') {
      unsupported(pattern, i, where, "an intersection of classes (&&)");
    }
  }
  return out;
}

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, Free> code;
  std::string where;
  bool jit = false;
};

Regex::Regex(std::string_view pattern, const std::string& where) {
  compile(translate_pattern(pattern, where), where);
}

Regex Regex::literal(std::string_view text, const std::string& where) {
  std::string pattern;
  for (char c : text) {
    bool plain = static_cast<uint8_t>(c) >= 0x80 || std::isalnum(static_cast<uint8_t>(c)) != 0;
    if (!plain) pattern.push_back('\\');
    pattern.push_back(c);
  }
  Regex regex;
  regex.compile(pattern, where);
  return regex;
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

void Regex::compile(std::string_view pattern, const std::string& where) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Oniguruma's `^` and `$` match at every line.
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   options, &error, &offset, nullptr);
  if (code == nullptr) {
    fail({.id = "tokenizer.regex",
          .where = fmt::format("{}, pattern '{}' at {}", where, pattern, offset),
          .expected = "a regular expression",
          .got = error_text(error)});
  }
  compiled_ = std::make_unique<Compiled>();
  compiled_->code.reset(code);
  compiled_->where = where;
  compiled_->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
}

std::vector<std::pair<size_t, size_t>> Regex::find_all(std::string_view text) const {
  const pcre2_code* code = compiled_->code.get();
  std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create_from_pattern(code, nullptr));
  std::unique_ptr<pcre2_match_context, Free> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  std::unique_ptr<pcre2_jit_stack, Free> stack;
  if (compiled_->jit && text.size() > 1024) {
    stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
  std::vector<std::pair<size_t, size_t>> found;
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (size_t at = 0; at < text.size();) {
    int rc =
        pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      fail({.id = "tokenizer.regex_match",
            .where = fmt::format("{}, at byte {} of a text of {} bytes", compiled_->where, at,
                                 text.size()),
            .expected = "a pattern that matches with bounded work",
            .got = error_text(rc),
            .cure = "Simplify the pattern in tokenizer.json",
            .code = Code::resource_exhausted});
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
    size_t begin = span[0];
    size_t end = span[1];
    if (begin < end) found.emplace_back(begin, end);
    at = std::max(end, at);
    // An empty match: go on behind the next code point.
    if (begin >= end) {
      do {
        ++at;
      } while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80);
    }
  }
  return found;
}

}  // namespace strata::data
