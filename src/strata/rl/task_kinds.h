// What each built-in task is made of. Only task.cc includes this.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/rl/task.h"

namespace strata::rl {

// Whole numbers drawn alike on every compiler: the engine is fixed by the standard, the
// distributions of <random> are not.
class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  // Uniform in [low, high], low <= high.
  int64_t between(int64_t low, int64_t high);
  // Uniform below `count`, count > 0.
  size_t below(size_t count) { return static_cast<size_t>(between(0, int64_t(count) - 1)); }

 private:
  std::mt19937_64 engine_;
};

// A problem, and the key that it shares with every problem that gives it away.
struct Candidate {
  std::string key;
  Example example;
};

struct TaskKind {
  std::string_view name;
  // Names of the options, space-separated.
  std::string_view options;
  // Every problem; empty when there are too many to list.
  std::vector<Candidate> (*list)(const Json& options);
  // One problem. Both throw rl.task_option.
  Candidate (*draw)(Draw& draw, const Json& options);
  bool (*right)(const Example& example, std::string_view reply);
  bool (*well_formed)(const Example& example, std::string_view reply);
  double (*credit)(const Example& example, std::string_view reply);
};

std::span<const TaskKind> task_kinds();

}  // namespace strata::rl
