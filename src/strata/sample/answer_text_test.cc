#include "strata/sample/answer_text.h"

#include <gtest/gtest.h>

#include "strata/sample/tiny_for_test.h"

namespace strata::sample {
namespace {

data::Tokenizer tiny() { return data::Tokenizer::load(test_data("data/tiny")); }

struct Fed {
  std::string text;
  std::vector<std::string> pieces;
  bool stopped = false;
};

Fed feed(const std::vector<int32_t>& ids, const std::vector<std::string>& stop) {
  AnswerText answer(tiny(), stop);
  Fed out;
  for (int32_t id : ids) {
    out.pieces.push_back(answer.push(id));
    if (answer.stopped()) break;
  }
  if (!answer.stopped()) out.pieces.push_back(answer.finish());
  std::string joined;
  for (const std::string& p : out.pieces) joined += p;
  EXPECT_EQ(joined, answer.text());
  return {answer.text(), out.pieces, answer.stopped()};
}

std::vector<int32_t> bytes(std::string_view text) {
  std::vector<int32_t> out;
  for (char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

TEST(AnswerText, StopsWhereverTheBordersLie) {
  for (const std::vector<int32_t>& ids : {bytes("hello world"), tiny().encode("hello world")}) {
    Fed f = feed(ids, {"lo w"});
    EXPECT_TRUE(f.stopped);
    EXPECT_EQ(f.text, "hel");
  }
  EXPECT_EQ(feed(bytes("aaab"), {"aab"}).text, "a");
  EXPECT_EQ(feed(bytes("abcab"), {"abd", "ca"}).text, "ab");
  EXPECT_EQ(feed(bytes("xyz"), {"z", "y"}).text, "x");
}

// What may begin a stop text is held back, and given out once it cannot any more.
TEST(AnswerText, HoldsBackNoMoreThanItMust) {
  Fed f = feed(bytes("ab--c-"), {"--->"});
  std::vector<std::string> want{"a", "b", "", "", "--c", "", "-"};
  EXPECT_EQ(f.pieces, want);
  EXPECT_FALSE(f.stopped);
  EXPECT_EQ(f.text, "ab--c-");
}

// A character comes when its last byte does; what is never completed becomes U+FFFD.
TEST(AnswerText, CharactersAreNeverCut) {
  Fed f = feed(bytes("\xC3\xA9!\xE2\x82"), {});
  std::vector<std::string> want{"", "\xC3\xA9", "!", "", "", "\xEF\xBF\xBD"};
  EXPECT_EQ(f.pieces, want);
  EXPECT_EQ(feed(bytes("a\xC3\xA9z"), {"\xC3\xA9"}).text, "a");
}

TEST(AnswerText, SpecialTokensLeaveNoText) {
  std::vector<int32_t> ids = tiny().encode("hello<|im_end|> world");
  EXPECT_EQ(feed(ids, {}).text, "hello world");
}

TEST(AnswerText, WithoutATokenizerThereIsNoText) {
  AnswerText answer(std::nullopt, {});
  EXPECT_EQ(answer.push(3), "");
  EXPECT_EQ(answer.finish(), "");
  EXPECT_FALSE(answer.stopped());
}

}  // namespace
}  // namespace strata::sample
