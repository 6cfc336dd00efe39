// The binary starts itself anew with the allocator's settings (cli/allocator.h).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace strata::end_to_end {
namespace {

std::string environment_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Starts `tokenize`, which waits for its input, and returns the environment it settles on: that
// with `wanted` in it, or the last one seen in five seconds.
std::string settled_environment(const std::string& choice, const std::string& wanted) {
  int input[2];
  if (::pipe(input) != 0) return "";
  pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(input[0], 0);
    ::close(input[1]);
    ::unsetenv("GLIBC_TUNABLES");
    ::setenv("STRATA_ALLOCATOR", choice.c_str(), 1);
    ::execl(STRATA_BINARY, "strata", "tokenize", "--model",
            STRATA_SOURCE_DIR "/tests/testdata/data/smollm2_tokenizer.json", nullptr);
    ::_exit(127);
  }
  std::string seen;
  for (int i = 0; i < 100 && seen.find(wanted) == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    seen = environment_of(pid);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ::close(input[0]);
  ::close(input[1]);
  return seen;
}

TEST(AllocatorSettings, AreOnUnlessTurnedOff) {
  std::string marker = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
  EXPECT_NE(settled_environment("", marker).find(marker), std::string::npos);
  std::string off = settled_environment("system", "STRATA_ALLOCATOR=system");
  EXPECT_NE(off.find("STRATA_ALLOCATOR=system"), std::string::npos);
  EXPECT_EQ(off.find("GLIBC_TUNABLES"), std::string::npos);
}

}  // namespace
}  // namespace strata::end_to_end
