// The binary runs on jemalloc with the settings of cli/allocator.cc, unless a sanitizer brings its
// own allocator.
#include <gtest/gtest.h>

#include "end_to_end/binary_for_test.h"

namespace strata::end_to_end {
namespace {

TEST(Allocator, KeepsMemoryAndAsksForHugePages) {
  Outcome o =
      run({.arguments = {"version"}, .environment = {{"MALLOC_CONF", "confirm_conf:true"}}});
  EXPECT_EQ(o.status, 0);
  if (STRATA_SANITIZED) GTEST_SKIP() << "the sanitizer brings its own allocator";
  for (const char* setting :
       {"narenas:1", "thp:always", "dirty_decay_ms:-1", "oversize_threshold:8388608"}) {
    EXPECT_NE(o.err.find(std::string("Set conf value: ") + setting), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace strata::end_to_end
