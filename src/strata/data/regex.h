// Regular expressions of tokenizer.json: Oniguruma's dialect (HF tokenizers' engine), run by
// PCRE2 with Unicode properties and its JIT compiler.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::data {

// `pattern` rewritten for PCRE2: \s, \w and their complements become the Unicode properties that
// Oniguruma means by them. Throws unimplemented for what PCRE2 would read differently (nested
// classes, class intersections, \W or \S inside a class, \h).
std::string translate_pattern(std::string_view pattern, const std::string& where);

// A compiled pattern. Move-only; matching is thread-safe.
class Regex {
 public:
  // Throws invalid_argument naming the offset in the pattern, or unimplemented (see above).
  Regex(std::string_view pattern, const std::string& where);
  // Matches `text` literally.
  static Regex literal(std::string_view text, const std::string& where);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // All matches in well-formed UTF-8, left to right, as (begin, end) in bytes; empty matches are
  // left out. Throws resource_exhausted when the pattern needs too much backtracking.
  std::vector<std::pair<size_t, size_t>> find_all(std::string_view text) const;

 private:
  struct Compiled;
  Regex() = default;
  void compile(std::string_view pattern, const std::string& where);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace strata::data
