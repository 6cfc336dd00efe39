#include "strata/rl/task_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/rl/answer.h"

namespace strata::rl {
namespace {

constexpr int64_t kLargestNumber = 1'000'000'000;

int64_t option(const Json& options, const std::string& name, int64_t fallback, int64_t least,
               int64_t most) {
  int64_t value = get_int_or(options, name, fallback, "task options");
  require(value >= least && value <= most, {.id = "rl.task_option",
                                            .where = "task option '" + name + "'",
                                            .expected = fmt::format("{} to {}", least, most),
                                            .got = fmt::format("{}", value)});
  return value;
}

Example example_of(std::string_view task, const std::string& id, std::string question,
                   std::string answer) {
  Example e;
  e.task = task;
  e.id = std::string(task) + ":" + id;
  e.messages = {{"user", std::move(question)}};
  e.answer = std::move(answer);
  return e;
}

// --- arithmetic

struct Arithmetic {
  int64_t min, max;
  std::string ops;
};

Arithmetic arithmetic_options(const Json& options) {
  Arithmetic a;
  a.min = option(options, "min", 0, -kLargestNumber, kLargestNumber);
  a.max = option(options, "max", std::max<int64_t>(20, a.min), a.min, kLargestNumber);
  a.ops = get_string_or(options, "ops", "+", "task options");
  bool known = !a.ops.empty() && a.ops.find_first_not_of("+-*") == std::string::npos;
  require(known, {.id = "rl.task_option",
                  .where = "task option 'ops'",
                  .expected = "some of + - *",
                  .got = "'" + a.ops + "'"});
  return a;
}

Candidate arithmetic_problem(int64_t a, int64_t b, char op) {
  int64_t value = op == '+' ? a + b : op == '-' ? a - b : a * b;
  Candidate c;
  c.example = example_of("arithmetic", fmt::format("{}{}{}", a, op, b),
                         fmt::format("What is {} {} {}? Answer with the number only.", a, op, b),
                         fmt::format("{}", value));
  c.example.meta = {{"a", a}, {"b", b}, {"op", std::string(1, op)}};
  bool swaps = op != '-' && a > b;
  c.key = fmt::format("{}{}{}", swaps ? b : a, op, swaps ? a : b);
  return c;
}

std::vector<Candidate> list_arithmetic(const Json& options) {
  constexpr int64_t kMostListed = 1'000'000;
  Arithmetic o = arithmetic_options(options);
  int64_t width = o.max - o.min + 1;
  std::vector<Candidate> all;
  if (width > 1000 || width * width * static_cast<int64_t>(o.ops.size()) > kMostListed) return all;
  for (char op : o.ops) {
    for (int64_t a = o.min; a <= o.max; ++a) {
      for (int64_t b = o.min; b <= o.max; ++b) all.push_back(arithmetic_problem(a, b, op));
    }
  }
  return all;
}

Candidate draw_arithmetic(Draw& draw, const Json& options) {
  Arithmetic o = arithmetic_options(options);
  int64_t a = draw.between(o.min, o.max);
  int64_t b = draw.between(o.min, o.max);
  return arithmetic_problem(a, b, o.ops[draw.below(o.ops.size())]);
}

bool right_arithmetic(const Example& e, std::string_view reply) {
  return last_integer(reply) == e.answer;
}

bool bare_integer(const Example&, std::string_view reply) { return is_bare_integer(reply); }

double credit_arithmetic(const Example& e, std::string_view reply) {
  std::optional<std::string> given = last_integer(reply);
  return given ? digit_share(e.answer, *given) : 0;
}

// --- number_format

std::string with_commas(int64_t value) {
  std::string text = fmt::format("{}", value);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

Candidate draw_number_format(Draw& draw, const Json& options) {
  int64_t max = option(options, "max", 9'999'999, 1000, kLargestNumber);
  int64_t value = draw.between(1000, max);
  const char* form = "";
  std::string question, answer;
  switch (draw.below(3)) {
    case 0:
      form = "commas";
      question =
          fmt::format("Write the number {} with commas between groups of three digits.", value);
      answer = with_commas(value);
      break;
    case 1:
      form = "zeros";
      question = fmt::format("Write the number {} with leading zeros as 12 digits.", value);
      answer = fmt::format("{:012}", value);
      break;
    default:
      form = "cents";
      question = fmt::format("Write {} cents as dollars with two decimals.", value);
      answer = fmt::format("{}.{:02}", value / 100, value % 100);
  }
  Candidate c;
  c.key = fmt::format("{}:{}", form, value);
  c.example =
      example_of("number_format", c.key, question + " Answer with the number only.", answer);
  c.example.meta = {{"form", form}, {"value", value}};
  return c;
}

bool right_text(const Example& e, std::string_view reply) { return trim(reply) == trim(e.answer); }

bool number_only(const Example&, std::string_view reply) {
  std::string_view text = trim(reply);
  return !text.empty() && text.find_first_not_of("0123456789.,") == std::string_view::npos;
}

double credit_text(const Example& e, std::string_view reply) {
  return byte_share(trim(e.answer), trim(reply));
}

// --- sorting

std::string comma_list(const std::vector<int64_t>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

Candidate draw_sorting(Draw& draw, const Json& options) {
  int64_t count = option(options, "count", 5, 2, 100);
  int64_t max = option(options, "max", 99, 1, kLargestNumber);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(draw.between(0, max));
  std::vector<int64_t> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  Candidate c;
  c.key = comma_list(sorted);
  c.example = example_of("sorting", fmt::format("{}", fmt::join(values, ",")),
                         "Sort these numbers from smallest to largest: " + comma_list(values) +
                             ". Answer with the numbers only, separated by commas.",
                         c.key);
  c.example.meta = {{"numbers", values}};
  return c;
}

bool right_list(const Example& e, std::string_view reply) {
  std::optional<std::vector<int64_t>> given = integer_list(reply);
  return given && given == integer_list(e.answer);
}

bool a_list(const Example&, std::string_view reply) { return integer_list(reply).has_value(); }

double credit_list(const Example& e, std::string_view reply) {
  std::optional<std::vector<int64_t>> given = integer_list(reply), answer = integer_list(e.answer);
  if (!given || !answer) return 0;
  size_t places = std::max(given->size(), answer->size()), right = 0;
  for (size_t i = 0; i < std::min(given->size(), answer->size()); ++i) {
    right += (*given)[i] == (*answer)[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(places);
}

// --- reversal

Candidate draw_reversal(Draw& draw, const Json& options) {
  int64_t length = option(options, "length", 5, 1, 200);
  std::string word;
  for (int64_t i = 0; i < length; ++i) word += static_cast<char>('a' + draw.below(26));
  std::string reversed(word.rbegin(), word.rend());
  Candidate c;
  c.key = std::min(word, reversed);
  c.example =
      example_of("reversal", word,
                 "Write the word \"" + word + "\" backwards. Answer with the word only.", reversed);
  c.example.meta = {{"word", word}};
  return c;
}

bool one_word(const Example&, std::string_view reply) {
  std::string_view text = trim(reply);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// --- countdown

struct Term {
  int64_t value;
  std::string text;
};

// (a op b) with one of the operators that stay within whole numbers from 1 to 10,000.
Term join_terms(Draw& draw, const Term& a, const Term& b) {
  std::vector<std::pair<char, int64_t>> choices = {{'+', a.value + b.value}};
  if (a.value > b.value) choices.emplace_back('-', a.value - b.value);
  if (a.value * b.value <= 10'000) choices.emplace_back('*', a.value * b.value);
  if (a.value % b.value == 0) choices.emplace_back('/', a.value / b.value);
  auto [op, value] = choices[draw.below(choices.size())];
  return {value, fmt::format("({} {} {})", a.text, op, b.text)};
}

Candidate draw_countdown(Draw& draw, const Json& options) {
  int64_t count = option(options, "count", 3, 2, 8);
  int64_t max = option(options, "max", 25, 1, 1000);
  std::vector<int64_t> numbers;
  std::vector<Term> terms;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(draw.between(1, max));
    terms.push_back({numbers.back(), fmt::format("{}", numbers.back())});
  }
  while (terms.size() > 1) {
    size_t at = draw.below(terms.size() - 1);
    terms[at] = join_terms(draw, terms[at], terms[at + 1]);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  int64_t target = terms[0].value;
  std::sort(numbers.begin(), numbers.end());
  Candidate c;
  c.key = comma_list(numbers);
  c.example = example_of(
      "countdown", fmt::format("{}={}", fmt::join(numbers, ","), target),
      fmt::format("Use each of the numbers {} exactly once, with + - * / and parentheses, to make "
                  "{}. Answer with the expression only.",
                  c.key, target),
      terms[0].text);
  c.example.meta = {{"numbers", numbers}, {"target", target}};
  return c;
}

// The reply's expression, without "= target" behind it.
std::optional<Evaluated> countdown_value(std::string_view reply) {
  return evaluate(reply.substr(0, reply.find('=')));
}

double credit_countdown(const Example& e, std::string_view reply) {
  std::optional<Evaluated> value = countdown_value(reply);
  if (!value) return 0;
  std::vector<int64_t> wanted;
  const Json& numbers = e.meta.contains("numbers") ? e.meta["numbers"] : Json::array();
  for (const Json& n : numbers) wanted.push_back(n.is_number_integer() ? n.get<int64_t>() : 0);
  std::sort(wanted.begin(), wanted.end());
  std::sort(value->numbers.begin(), value->numbers.end());
  if (wanted != value->numbers) return 0.25;
  int64_t target = get_int(e.meta, "target", "meta of '" + e.id + "'");
  return value->denominator == 1 && value->numerator == target ? 1 : 0.5;
}

bool right_countdown(const Example& e, std::string_view reply) {
  return credit_countdown(e, reply) == 1;
}

bool an_expression(const Example&, std::string_view reply) {
  return countdown_value(reply).has_value();
}

std::vector<Candidate> list_none(const Json&) { return {}; }

// --- problems of the user's own

bool some_text(const Example&, std::string_view reply) { return !trim(reply).empty(); }

Candidate draw_none(Draw&, const Json&) {
  fail({.id = "rl.task_name",
        .where = "task ''",
        .expected = "the name of a built-in task",
        .got = "an empty name"});
}

}  // namespace

int64_t Draw::between(int64_t low, int64_t high) {
  uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (count == 0) return static_cast<int64_t>(engine_());
  // Refuses the last, incomplete run of `count`, so that no value is favoured.
  uint64_t limit = UINT64_MAX - (UINT64_MAX % count + 1) % count;
  uint64_t value = engine_();
  while (value > limit) value = engine_();
  return static_cast<int64_t>(static_cast<uint64_t>(low) + value % count);
}

std::span<const TaskKind> task_kinds() {
  static constexpr std::array<TaskKind, 6> kKinds = {{
      {"arithmetic", "min max ops", list_arithmetic, draw_arithmetic, right_arithmetic,
       bare_integer, credit_arithmetic},
      {"number_format", "max", list_none, draw_number_format, right_text, number_only, credit_text},
      {"sorting", "count max", list_none, draw_sorting, right_list, a_list, credit_list},
      {"reversal", "length", list_none, draw_reversal, right_text, one_word, credit_text},
      {"countdown", "count max", list_none, draw_countdown, right_countdown, an_expression,
       credit_countdown},
      {"", "", list_none, draw_none, right_text, some_text, credit_text},
  }};
  return kKinds;
}

}  // namespace strata::rl
