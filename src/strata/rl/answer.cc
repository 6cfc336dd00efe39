#include "strata/rl/answer.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "strata/base/strings.h"

namespace strata::rl {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr std::string_view kMinus = "\xe2\x88\x92";  // U+2212
constexpr std::string_view kTimes = "\xc3\x97";      // U+00D7
constexpr std::string_view kDivided = "\xc3\xb7";    // U+00F7

// Bytes of a minus sign that ends just before `end`; 0 when there is none or it is an operator.
size_t sign_before(std::string_view text, size_t end) {
  size_t length = 0;
  if (end >= 1 && text[end - 1] == '-') length = 1;
  if (text.substr(0, end).ends_with(kMinus)) length = kMinus.size();
  if (length == 0 || end == length) return length;
  char before = text[end - length - 1];
  return is_digit(before) || is_letter(before) || before == ')' ? 0 : length;
}

std::string plain_integer(std::string_view digits, bool negative) {
  size_t first = digits.find_first_not_of('0');
  if (first == std::string_view::npos) return "0";
  return (negative ? "-" : "") + std::string(digits.substr(first));
}

// A recursive-descent reader over one expression; `ok` turns false at the first fault.
class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text) {}

  std::optional<Evaluated> read() {
    Fraction f = sum(0);
    skip_blanks();
    if (!ok_ || at_ != text_.size()) return std::nullopt;
    return Evaluated{f.n, f.d, std::move(numbers_)};
  }

 private:
  struct Fraction {
    int64_t n = 0, d = 1;
  };
  static constexpr int kDeepest = 32;

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Fraction fault() {
    ok_ = false;
    return {};
  }

  Fraction reduced(int64_t n, int64_t d) {
    if (d == 0 || n == INT64_MIN || d == INT64_MIN) return fault();
    int64_t g = std::gcd(n, d) * (d < 0 ? -1 : 1);
    return {n / g, d / g};
  }

  Fraction times(Fraction a, Fraction b) {
    int64_t n = 0, d = 0;
    if (__builtin_mul_overflow(a.n, b.n, &n) || __builtin_mul_overflow(a.d, b.d, &d)) {
      return fault();
    }
    return reduced(n, d);
  }

  Fraction plus(Fraction a, Fraction b) {
    int64_t x = 0, y = 0, n = 0, d = 0;
    bool over = __builtin_mul_overflow(a.n, b.d, &x) || __builtin_mul_overflow(b.n, a.d, &y) ||
                __builtin_add_overflow(x, y, &n) || __builtin_mul_overflow(a.d, b.d, &d);
    return over ? fault() : reduced(n, d);
  }

  Fraction sum(int depth) {
    Fraction value = product(depth);
    while (ok_) {
      if (take("+")) {
        value = plus(value, product(depth));
      } else if (take("-") || take(kMinus)) {
        Fraction right = product(depth);
        value = plus(value, {-right.n, right.d});
      } else {
        break;
      }
    }
    return value;
  }

  Fraction product(int depth) {
    Fraction value = factor(depth);
    while (ok_) {
      if (take("*") || take(kTimes)) {
        value = times(value, factor(depth));
      } else if (take("/") || take(kDivided)) {
        Fraction right = factor(depth);
        value = times(value, {right.d, right.n});
      } else {
        break;
      }
    }
    return value;
  }

  Fraction factor(int depth) {
    if (!ok_ || depth > kDeepest) return fault();
    if (take("(")) {
      Fraction value = sum(depth + 1);
      return take(")") ? value : fault();
    }
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    int64_t value = 0;
    // from_chars would also read a sign.
    if (begin == end || !is_digit(*begin)) return fault();
    std::from_chars_result read = std::from_chars(begin, end, value);
    if (read.ec != std::errc()) return fault();
    at_ += static_cast<size_t>(read.ptr - begin);
    numbers_.push_back(value);
    return {value, 1};
  }

  std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
  std::vector<int64_t> numbers_;
};

}  // namespace

std::optional<std::string> last_integer(std::string_view reply) {
  size_t end = reply.size();
  while (end > 0 && !is_digit(reply[end - 1])) --end;
  if (end == 0) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && is_digit(reply[begin - 1])) --begin;
  if (begin >= 2 && reply[begin - 1] == '.' && is_digit(reply[begin - 2])) return std::nullopt;
  return plain_integer(reply.substr(begin, end - begin), sign_before(reply, begin) > 0);
}

bool is_bare_integer(std::string_view reply) {
  std::string_view text = trim(reply);
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

double digit_share(std::string_view answer, std::string_view given) {
  bool minus_a = answer.starts_with('-'), minus_g = given.starts_with('-');
  if (minus_a) answer.remove_prefix(1);
  if (minus_g) given.remove_prefix(1);
  size_t places = std::max(answer.size(), given.size());
  size_t right = 0;
  for (size_t i = 1; i <= std::min(answer.size(), given.size()); ++i) {
    right += answer[answer.size() - i] == given[given.size() - i] ? 1 : 0;
  }
  if (minus_a || minus_g) {
    ++places;
    right += minus_a == minus_g ? 1 : 0;
  }
  return places == 0 ? 1 : static_cast<double>(right) / static_cast<double>(places);
}

double byte_share(std::string_view answer, std::string_view given) {
  size_t places = std::max(answer.size(), given.size());
  size_t right = 0;
  for (size_t i = 0; i < std::min(answer.size(), given.size()); ++i) {
    right += answer[i] == given[i] ? 1 : 0;
  }
  return places == 0 ? 1 : static_cast<double>(right) / static_cast<double>(places);
}

std::optional<std::vector<int64_t>> integer_list(std::string_view text) {
  text = trim(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<int64_t> values;
  for (const std::string& part : split(text, ',')) {
    std::string_view number = trim(part);
    int64_t value = 0;
    const char* end = number.data() + number.size();
    std::from_chars_result read = std::from_chars(number.data(), end, value);
    if (number.empty() || read.ec != std::errc() || read.ptr != end) return std::nullopt;
    values.push_back(value);
  }
  return values;
}

std::optional<Evaluated> evaluate(std::string_view expression) {
  constexpr size_t kLongest = 1000;
  if (expression.size() > kLongest) return std::nullopt;
  return ExpressionReader(trim(expression)).read();
}

}  // namespace strata::rl
