#include "strata/base/error.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(ErrorTest, AMessageHasItsPartsInOrder) {
  Problem p{
      .id = "room.what", .where = "file:3", .expected = "one", .got = "two", .cure = "Write one"};
  EXPECT_EQ(describe(p), "file:3: expected one, got two. Write one [room.what]");
  EXPECT_EQ(describe({.id = "room.what", .got = "two"}), "two [room.what]");
}

TEST(ErrorTest, ContextIsAppendedLineByLine) {
  Error e(Code::data_loss, "room.what", "message");
  e.add_context("while loading a");
  e.add_context("while running b");
  EXPECT_EQ(std::string(e.what()), "message\n  while loading a\n  while running b");
  EXPECT_EQ(e.message(), "message");
  EXPECT_EQ(e.context().size(), 2u);
}

TEST(ErrorTest, TheThreeWaysToRaiseHaveTheirCodes) {
  auto code_of = [](auto&& raise) {
    try {
      raise();
    } catch (const Error& e) {
      return e.code();
    }
    return Code::unknown;
  };
  EXPECT_EQ(code_of([] { require(false, {.id = "t.x"}); }), Code::invalid_argument);
  EXPECT_EQ(code_of([] { unimplemented({.id = "t.x"}); }), Code::unimplemented);
  EXPECT_EQ(code_of([] { invariant(false, "t.x", "y"); }), Code::internal);
  EXPECT_NO_THROW(require(true, {.id = "t.x"}));
  EXPECT_NO_THROW(invariant(true, "t.x", "y"));
}

TEST(ErrorTest, EveryCodeHasAName) {
  for (int c = 1; c <= 16; ++c) EXPECT_FALSE(name_of(static_cast<Code>(c)).empty());
  EXPECT_EQ(name_of(Code::unauthenticated), "unauthenticated");
}

}  // namespace
}  // namespace strata
