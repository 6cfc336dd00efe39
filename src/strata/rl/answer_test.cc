#include "strata/rl/answer.h"

#include <gtest/gtest.h>

#include <random>

#include "strata/base/strings.h"

namespace strata::rl {
namespace {

TEST(Answer, LastInteger) {
  struct Row {
    const char* reply;
    const char* want;  // "" is none
  };
  const Row rows[] = {{"23", "23"},
                      {"The answer is 23.", "23"},
                      {"2 + 3 = 5", "5"},
                      {"5\n\nwait, 17 apples", "17"},
                      {"-4", "-4"},
                      {"= -4", "-4"},
                      {"\xe2\x88\x92"
                       "4",
                       "-4"},
                      {"20-3", "3"},
                      {"(4)-3", "3"},
                      {"x-3", "3"},
                      {"20 - 3", "3"},
                      {"007", "7"},
                      {"-0", "0"},
                      {"000", "0"},
                      {"3.5", ""},
                      {"v. 5", "5"},
                      {".5", "5"},
                      {"1,234", "234"},
                      {"", ""},
                      {"none", ""},
                      {"\xff\xfe 12 \xff", "12"},
                      {"123456789012345678901234567890", "123456789012345678901234567890"}};
  for (const Row& row : rows)
    EXPECT_EQ(last_integer(row.reply).value_or(""), row.want) << row.reply;
}

TEST(Answer, BareInteger) {
  for (const char* good : {"7", " 12\n", "-3", "007"}) EXPECT_TRUE(is_bare_integer(good)) << good;
  for (const char* bad : {"", "-", "7.", "7 8", "a7", "--7", "+7"}) {
    EXPECT_FALSE(is_bare_integer(bad)) << bad;
  }
}

TEST(Answer, DigitShareComparesPlaces) {
  EXPECT_EQ(digit_share("23", "23"), 1);
  EXPECT_EQ(digit_share("23", "13"), 0.5);
  EXPECT_EQ(digit_share("23", "3"), 0.5);
  EXPECT_EQ(digit_share("3", "13"), 0.5);
  EXPECT_EQ(digit_share("23", "32"), 0);
  EXPECT_EQ(digit_share("-4", "4"), 0.5);
  EXPECT_EQ(digit_share("-4", "-4"), 1);
  EXPECT_EQ(digit_share("4", "-14"), 1.0 / 3);
}

TEST(Answer, ByteShare) {
  EXPECT_EQ(byte_share("", ""), 1);
  EXPECT_EQ(byte_share("abc", ""), 0);
  EXPECT_EQ(byte_share("abcd", "abxd"), 0.75);
  EXPECT_EQ(byte_share("ab", "abxx"), 0.5);
}

TEST(Answer, IntegerList) {
  EXPECT_EQ(integer_list("3, -1,20 "), (std::vector<int64_t>{3, -1, 20}));
  EXPECT_EQ(integer_list(" [1]\n"), (std::vector<int64_t>{1}));
  for (const char* bad : {"", "1,", "a", "1 2", "[1, 2", "9223372036854775808", "1,,2"}) {
    EXPECT_FALSE(integer_list(bad).has_value()) << bad;
  }
}

TEST(Answer, EvaluatesExactly) {
  struct Row {
    const char* text;
    int64_t n, d;
  };
  const Row rows[] = {{"7", 7, 1},
                      {"2 + 3 * 4", 14, 1},
                      {"(2+3)*4", 20, 1},
                      {"10 - 3 - 2", 5, 1},
                      {"1 / 3", 1, 3},
                      {"1 / 3 * 3", 1, 1},
                      {"8 / (3 - 8 / 3)", 24, 1},
                      {"2 - 5", -3, 1},
                      {"4 / (1 - 3)", -2, 1},
                      {"0 / 5", 0, 1},
                      {"6 \xc3\x97 7 \xc3\xb7 2 \xe2\x88\x92 1", 20, 1}};
  for (const Row& row : rows) {
    std::optional<Evaluated> value = evaluate(row.text);
    ASSERT_TRUE(value.has_value()) << row.text;
    EXPECT_EQ(value->numerator, row.n) << row.text;
    EXPECT_EQ(value->denominator, row.d) << row.text;
  }
  EXPECT_EQ(evaluate("(25 - 3) * 7")->numbers, (std::vector<int64_t>{25, 3, 7}));
}

TEST(Answer, RefusesWhatIsNoExpression) {
  for (const char* bad :
       {"", "1 +", "* 2", "(1", "1)", "1 / 0", "4 / (2 - 2)", "a + 1", "1 2", "()", "-3",
        "99999999999999999999", "4611686018427387904 * 4", "2 ** 3"}) {
    EXPECT_FALSE(evaluate(bad).has_value()) << bad;
  }
  EXPECT_TRUE(evaluate(std::string(30, '(') + "1" + std::string(30, ')')).has_value());
  EXPECT_FALSE(evaluate(std::string(40, '(') + "1" + std::string(40, ')')).has_value());
  EXPECT_FALSE(evaluate(std::string(1'000'000, '(')).has_value());
}

// Whatever bytes come, nothing throws, and a share stays a share.
TEST(Answer, PropertyAnyBytes) {
  std::mt19937_64 random(5);
  const std::string alphabet = "0123456789+-*/()., \n\xe2\x88\x92\xc3\x97x[]=";
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += alphabet[random() % alphabet.size()];
    std::optional<std::string> last = last_integer(text);
    if (last) {
      EXPECT_TRUE(is_bare_integer(*last)) << text;
      EXPECT_EQ(digit_share(*last, *last), 1) << text;
      double share = digit_share("-120", *last);
      EXPECT_TRUE(share >= 0 && share <= 1) << text;
    }
    std::optional<Evaluated> value = evaluate(text);
    if (value) {
      EXPECT_GT(value->denominator, 0) << text;
    }
    if (is_bare_integer(text)) {
      EXPECT_TRUE(last.has_value()) << text;
    }
  }
}

}  // namespace
}  // namespace strata::rl
