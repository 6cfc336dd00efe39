#include "strata/cli/allocator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace strata::cli {
namespace {

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "(unset)" : value;
}

// Each case starts the process anew unless it returns, which is what is tested here.
class Allocator : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("GLIBC_TUNABLES");
    ::unsetenv("STRATA_ALLOCATOR");
    ::unsetenv("STRATA_CALLERS_TUNABLES");
  }
  void TearDown() override { SetUp(); }
  char* argv_[1] = {nullptr};
};

TEST_F(Allocator, IsLeftToTheSystemOnRequest) {
  ::setenv("STRATA_ALLOCATOR", "system", 1);
  tune_allocator(argv_);
  EXPECT_EQ(text_of("GLIBC_TUNABLES"), "(unset)");
}

TEST_F(Allocator, KeepsTheCallersOwnTunables) {
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2", 1);
  tune_allocator(argv_);
  EXPECT_EQ(text_of("GLIBC_TUNABLES"), "glibc.malloc.arena_max=2");
}

TEST_F(Allocator, ChildrenGetTheCallersEnvironment) {
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
  ::setenv("STRATA_CALLERS_TUNABLES", "", 1);
  tune_allocator(argv_);
  EXPECT_EQ(text_of("GLIBC_TUNABLES"), "(unset)");
  EXPECT_EQ(text_of("STRATA_CALLERS_TUNABLES"), "(unset)");

  ::setenv("GLIBC_TUNABLES", "glibc.rtld.nns=2:glibc.malloc.hugetlb=1", 1);
  ::setenv("STRATA_CALLERS_TUNABLES", "glibc.rtld.nns=2", 1);
  tune_allocator(argv_);
  EXPECT_EQ(text_of("GLIBC_TUNABLES"), "glibc.rtld.nns=2");
}

}  // namespace
}  // namespace strata::cli
