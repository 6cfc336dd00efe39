#include "strata/base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "strata/base/log.h"

namespace strata {
namespace {

// Neither gone nor a zombie that waits for its parent.
bool is_running(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state = "gone";
  stat >> id >> name >> state;
  return state != "gone" && state != "Z" && state != "X";
}

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
    EXPECT_TRUE(is_running(inner));
  }
  EXPECT_LT(clock.seconds(), 20);
  // The kernel ends the inner one a moment after the signal was sent.
  while (is_running(inner) && clock.seconds() < 20) ::usleep(1000);
  EXPECT_FALSE(is_running(inner));
}

}  // namespace
}  // namespace strata
