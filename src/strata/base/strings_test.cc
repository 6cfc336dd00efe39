#include "strata/base/strings.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(StringsTest, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(StringsTest, JoinIsItsInverse) {
  std::vector<std::string> parts = {"x", "", "z"};
  EXPECT_EQ(split(join(parts, ";"), ';'), parts);
}

TEST(StringsTest, TrimTakesBlanksOffBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("  "), "");
}

TEST(StringsTest, NearestIsTheSmallestEditDistance) {
  std::vector<std::string> known = {"temperature", "top_k", "top_p"};
  EXPECT_EQ(nearest("tempreature", known), "temperature");
  EXPECT_EQ(nearest("topk", known), "top_k");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(StringsTest, GlobsOfStarsAndQuestionMarks) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*", "a.b"));
  EXPECT_TRUE(glob_matches("model.*.bias", "model.layers.3.q.bias"));
  EXPECT_TRUE(glob_matches("*.layers.?.*", "model.layers.3.q"));
  EXPECT_TRUE(glob_matches("*ab*ab", "abxabab"));
  EXPECT_FALSE(glob_matches("*.layers.?.*", "model.layers.13.q"));
  EXPECT_FALSE(glob_matches("model", "model.q"));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("?", ""));
  // Many stars do not take exponential time.
  std::string stars;
  for (int i = 0; i < 40; ++i) stars += "*a";
  EXPECT_FALSE(glob_matches(stars + "b", std::string(5000, 'a')));
}

TEST(StringsTest, BytesAndLists) {
  EXPECT_EQ(bytes_text(12), "12 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(uint64_t{3} << 30), "3.00 GiB");
  EXPECT_EQ(list_text(std::vector<int64_t>{2, 3}), "[2, 3]");
  EXPECT_EQ(list_text({}), "[]");
}

TEST(StringsTest, Utf8RefusesOverlongSurrogateAndTruncatedForms) {
  EXPECT_TRUE(is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  EXPECT_TRUE(is_utf8(""));
  EXPECT_FALSE(is_utf8("\xc0\x80"));          // overlong NUL
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));  // above U+10FFFF
  EXPECT_FALSE(is_utf8("\xe2\x82"));          // truncated
  EXPECT_FALSE(is_utf8("\x80"));              // stray continuation
  EXPECT_FALSE(is_utf8("\xc3("));
}

}  // namespace
}  // namespace strata
