// Reading answers out of replies: the last integer, digit by digit credit, and arithmetic
// expressions. Replies are any bytes; nothing here throws on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::rl {

// The last integer written in `reply`, in plain form: "-12", no leading zeros, no "-0". A hyphen or
// U+2212 directly before the digits is a sign unless a letter, a digit or ')' stands before it
// ("20-3" ends in 3). Empty when there are no digits, or when the last ones are the fraction of a
// decimal ("3.5"). Any number of digits.
std::optional<std::string> last_integer(std::string_view reply);

// Whether the reply, apart from blanks around it, is one integer and nothing else.
bool is_bare_integer(std::string_view reply);

// Share of right places, in [0, 1]: the digits of two integers in plain form are compared place by
// place from the right, and the longer one gives the number of places; where either is negative,
// the sign is one more place.
double digit_share(std::string_view answer, std::string_view given);

// Share of equal bytes at equal positions, of the longer of the two; 1 when both are empty.
double byte_share(std::string_view answer, std::string_view given);

// Integers separated by commas, with or without blanks and square brackets around: "[3, -1, 20]".
// Empty when the text is anything else or a number leaves int64.
std::optional<std::vector<int64_t>> integer_list(std::string_view text);

// A value and the numbers that an expression is made of, in their order.
struct Evaluated {
  int64_t numerator = 0;
  // Positive; the fraction is in lowest terms.
  int64_t denominator = 1;
  std::vector<int64_t> numbers;
};

// Evaluates whole numbers with + - * / (also U+00D7, U+00F7, U+2212) and parentheses, exactly.
// Empty when the text is no such expression, divides by zero, leaves int64, nests deeper than 32 or
// is longer than 1,000 bytes.
std::optional<Evaluated> evaluate(std::string_view expression);

}  // namespace strata::rl
