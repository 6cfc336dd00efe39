#include "strata/base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "strata/base/error.h"

namespace strata {
namespace {

TEST(InterruptTest, TheFirstSignalRaisesTheFlag) {
  InterruptFlag flag;
  EXPECT_FALSE(flag.raised());
  ::raise(SIGINT);
  EXPECT_TRUE(flag.raised());
  EXPECT_EQ(flag.signal(), SIGINT);
}

TEST(InterruptTest, ANewFlagStartsLowered) {
  {
    InterruptFlag flag;
    ::raise(SIGTERM);
    EXPECT_EQ(flag.signal(), SIGTERM);
  }
  EXPECT_FALSE(InterruptFlag().raised());
}

TEST(InterruptTest, ItsEndPutsTheOldHandlersBack) {
  struct sigaction before {};
  struct sigaction after {};
  ::sigaction(SIGINT, nullptr, &before);
  { InterruptFlag flag; }
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        InterruptFlag flag;
        ::raise(SIGINT);
        ::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptTest, TwoAtATimeIsAnInvariant) {
  InterruptFlag flag;
  try {
    InterruptFlag second;
    FAIL() << "a second flag was made";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "base.interrupt_twice");
    EXPECT_EQ(e.code(), Code::internal);
  }
}

}  // namespace
}  // namespace strata
