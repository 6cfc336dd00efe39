#include "strata/cli/allocator.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace strata::cli {
namespace {

constexpr const char* kTunables = "GLIBC_TUNABLES";
// Set between the two starts; holds the caller's tunables.
constexpr const char* kCallers = "STRATA_CALLERS_TUNABLES";
// Huge pages; no block by mmap of its own; freed memory is kept. A single arena (arena_max=1) would
// keep more, but compiling takes a third longer with it.
constexpr const char* kSettings =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776";

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void restore(const std::string& tunables) {
  if (tunables.empty()) {
    ::unsetenv(kTunables);
  } else {
    ::setenv(kTunables, tunables.c_str(), 1);
  }
  ::unsetenv(kCallers);
}

}  // namespace

void tune_allocator(char** argv) {
  std::string tunables = text_of(kTunables);
  if (std::getenv(kCallers) != nullptr) {
    restore(text_of(kCallers));
    return;
  }
  bool chosen = tunables.find("glibc.malloc.") != std::string::npos;
  if (chosen || text_of("STRATA_ALLOCATOR") == "system") return;
  ::setenv(kCallers, tunables.c_str(), 1);
  ::setenv(kTunables, ((tunables.empty() ? "" : tunables + ":") + kSettings).c_str(), 1);
  std::error_code failure;
  std::string self = std::filesystem::read_symlink("/proc/self/exe", failure).string();
  if (!failure) ::execv(self.c_str(), argv);
  restore(tunables);  // it could not be started: go on as we are
}

}  // namespace strata::cli
