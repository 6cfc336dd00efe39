// UTF-8 in small pieces: well-formedness, replacement of what is not, code points, categories.
// Pure functions; threads need no care.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::data {

// What stands at the front of a byte string.
struct Utf8Step {
  enum class Kind {
    valid,      // `length` bytes are one code point
    invalid,    // `length` bytes are a maximal ill-formed part: one U+FFFD stands for them
    truncated,  // all `length` bytes that are left could begin a code point
  };
  Kind kind = Kind::invalid;
  size_t length = 0;
};

// Examines the front of `bytes`, which must not be empty. Ill-formed parts are cut as the Unicode
// Standard (chapter 3.9, "maximal subpart") and thus Rust and Python cut them.
Utf8Step utf8_step(std::string_view bytes);

// `bytes` with every ill-formed part replaced by U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

// The code point at `*position` of well-formed text; moves the position behind it.
uint32_t next_point(std::string_view text, size_t* position);

// The code point that ends right before `position` (> 0) of well-formed text.
uint32_t previous_point(std::string_view text, size_t position);

void append_utf8(uint32_t point, std::string* text);

// Unicode property White_Space.
bool is_white_space(uint32_t point);

// General category N (Nd, Nl, No).
bool is_numeric(uint32_t point);

// A letter, mark, number or connector: what `\w` means in the regular expressions of Rust.
bool is_word(uint32_t point);

// What Python's str.isprintable says of it, and thus what its repr does not escape.
bool is_printable(uint32_t point);

// What Python's str.strip takes away: white space and the separators U+001C to U+001F.
bool is_python_space(uint32_t point);

// Unicode normalization forms.
enum class NormalForm { nfc, nfd, nfkc, nfkd };

// `text` (well-formed) in the wanted form. Throws resource_exhausted when memory runs out.
std::string normalize(std::string_view text, NormalForm form);

// Case mapping of every code point of well-formed text, one to one but for the sharp s.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

}  // namespace strata::data
