// Small text helpers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view text);

// The member of `known` with the smallest edit distance to `name`; empty when `known` is.
std::string nearest(std::string_view name, std::span<const std::string> known);

// Whether the glob matches the whole text: '*' is any run of characters (dots too), '?' any single
// one. Takes at most |glob| * |text| steps.
bool glob_matches(std::string_view glob, std::string_view text);

// "1.50 GiB", "12 B".
std::string bytes_text(uint64_t bytes);

// "[2, 3]".
std::string list_text(std::span<const int64_t> values);

// Whether every byte sequence is well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

}  // namespace strata
