#include "strata/base/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "strata/base/log.h"

namespace strata {
namespace {

TEST(ProcessTest, LinesGoOutAndComeBack) {
  ChildProcess cat({"cat"});
  for (int i = 0; i < 3; ++i) {
    cat.write_line("{\"i\": " + std::to_string(i) + "}", 10);
    EXPECT_EQ(cat.read_json_line(10).at("i").get<int>(), i);
  }
  cat.close_input();
  EXPECT_EQ(cat.wait(10), 0);
}

TEST(ProcessTest, MoreThanTwoPipesHoldDoesNotDeadlock) {
  ChildProcess cat({"cat"});
  std::string line(60000, 'x');
  for (int i = 0; i < 10; ++i) cat.write_line(line, 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(cat.read_line(10), line);
}

TEST(ProcessTest, ExitStatusAndSignals) {
  EXPECT_EQ(ChildProcess({"sh", "-c", "exit 7"}).wait(10), 7);
  EXPECT_EQ(ChildProcess({"sh", "-c", "kill -TERM $$"}).wait(10), 128 + SIGTERM);
}

TEST(ProcessTest, WhatItPrintedBeforeItsEndIsStillRead) {
  ChildProcess child({"sh", "-c", "printf 'one\\r\\ntwo\\n'"});
  EXPECT_EQ(child.wait(10), 0);
  EXPECT_EQ(child.read_line(10), "one");
  EXPECT_EQ(child.read_line(10), "two");
}

TEST(ProcessTest, ItsDestructorEndsTheProgramAndItsChildren) {
  Stopwatch clock;
  pid_t inner = 0;
  {
    ChildProcess child({"sh", "-c", "sleep 60 & echo $!; wait"});
    inner = static_cast<pid_t>(std::stol(child.read_line(10)));
    EXPECT_EQ(::kill(inner, 0), 0);
  }
  EXPECT_LT(clock.seconds(), 20);
  // Gone, or a zombie that waits for its new parent.
  std::ifstream stat("/proc/" + std::to_string(inner) + "/stat");
  std::string id, name, state = "gone";
  stat >> id >> name >> state;
  EXPECT_TRUE(state == "gone" || state == "Z" || state == "X") << state;
}

}  // namespace
}  // namespace strata
