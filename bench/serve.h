// The protocol by which bench/peers/compare.py alternates two programs in one run: a program that
// serves does one repetition for each line "go" on its standard input, answers with one line of
// JSON, and ends at the end of the input.
#pragma once

#include <fmt/format.h>

#include <time.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <string>

#include "strata/base/json.h"

namespace strata::bench {

// `once` does one repetition and describes it.
inline void serve(const std::function<Json()>& once) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line != "go") continue;
    fmt::print("{}\n", once().dump());
    std::fflush(stdout);
  }
}

// CPU seconds of this process and all its threads.
inline double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// CPU seconds of the calling thread: what a host pays for a step, whatever it waits for.
inline double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace strata::bench
