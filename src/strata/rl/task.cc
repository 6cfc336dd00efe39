#include "strata/rl/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/rl/task_kinds.h"

namespace strata::rl {
namespace {

// Problems that give one another away.
using Group = std::vector<Example>;

constexpr int64_t kMostProblems = 10'000'000;

const TaskKind& kind_of(std::string_view name) {
  for (const TaskKind& kind : task_kinds()) {
    if (kind.name == name) return kind;
  }
  std::vector<std::string> known = task_names();
  fail({.id = "rl.task_name",
        .where = "task",
        .expected = "one of " + join(known, ", "),
        .got = "'" + std::string(name) + "'",
        .cure = "Did you mean '" + nearest(name, known) + "'?"});
}

void check_options(const TaskKind& kind, const Json& options) {
  std::string where = "options of task '" + std::string(kind.name) + "'";
  require(options.is_object(), {.id = "rl.task_option",
                                .where = where,
                                .expected = "an object",
                                .got = options.type_name()});
  std::vector<std::string> known = split(kind.options, ' ');
  for (const auto& item : options.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    fail({.id = "rl.task_option",
          .where = where,
          .expected = "one of " + join(known, ", "),
          .got = "'" + item.key() + "'",
          .cure = "Did you mean '" + nearest(item.key(), known) + "'?"});
  }
}

void check_sizes(const TaskConfig& c) {
  for (int64_t size : {c.train, c.validation, c.held_out}) {
    require(size >= 0 && size <= kMostProblems,
            {.id = "rl.task_size",
             .where = "task '" + c.name + "'",
             .expected = fmt::format("sizes from 0 to {}", kMostProblems),
             .got = fmt::format("train {}, validation {}, held_out {}", c.train, c.validation,
                                c.held_out)});
  }
}

[[noreturn]] void too_few(const TaskConfig& config, size_t wanted, size_t found) {
  fail({.id = "rl.task_size",
        .where = "task '" + config.name + "'",
        .expected = fmt::format("{} different problems", wanted),
        .got = fmt::format("{} that these options allow", found),
        .cure = "Ask for fewer, or widen the task's ranges"});
}

std::vector<Group> grouped(std::vector<Candidate> candidates) {
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> place;
  for (Candidate& c : candidates) {
    auto [it, fresh] = place.emplace(std::move(c.key), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(std::move(c.example));
  }
  return groups;
}

// Draws until `count` groups differ; gives up when new ones have become too rare.
std::vector<Group> drawn(const TaskKind& kind, const TaskConfig& config, Draw& draw, size_t count) {
  std::vector<Group> groups;
  std::unordered_set<std::string> seen;
  size_t in_vain = 0;
  while (groups.size() < count) {
    Candidate c = kind.draw(draw, config.options);
    if (seen.insert(std::move(c.key)).second) {
      groups.push_back({std::move(c.example)});
      in_vain = 0;
    } else if (++in_vain > 1000 + 20 * groups.size()) {
      too_few(config, count, groups.size());
    }
  }
  return groups;
}

// Moves `count` problems out of `groups` (from its end). Groups stay whole; where only one problem
// is still wanted and a larger group comes, one of it is taken and the others are used nowhere.
std::vector<Example> take(std::vector<Group>& groups, size_t count) {
  std::vector<Example> part;
  while (part.size() < count && !groups.empty()) {
    for (Example& e : groups.back()) {
      if (part.size() < count) part.push_back(std::move(e));
    }
    groups.pop_back();
  }
  return part;
}

template <class T>
void shuffle(std::vector<T>& values, Draw& draw) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[draw.below(i)]);
}

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskKind& kind : task_kinds()) {
    if (!kind.name.empty()) names.emplace_back(kind.name);
  }
  return names;
}

TaskSplits make_task(const TaskConfig& config) {
  const TaskKind& kind = kind_of(config.name);
  check_options(kind, config.options);
  check_sizes(config);
  Draw draw(config.seed);
  std::vector<Group> groups = grouped(kind.list(config.options));
  bool listed = !groups.empty();
  auto train = static_cast<size_t>(config.train > 0 || listed ? config.train : 1000);
  auto validation = static_cast<size_t>(config.validation);
  auto held_out = static_cast<size_t>(config.held_out);
  if (!listed) groups = drawn(kind, config, draw, train + validation + held_out);
  size_t exist = 0;
  for (const Group& g : groups) exist += g.size();
  shuffle(groups, draw);
  TaskSplits splits;
  splits.held_out = take(groups, held_out);
  splits.validation = take(groups, validation);
  bool rest = listed && config.train == 0;
  splits.train = take(groups, rest ? exist : train);
  bool enough = splits.held_out.size() == held_out && splits.validation.size() == validation &&
                (rest ? !splits.train.empty() : splits.train.size() == train);
  if (!enough) too_few(config, held_out + validation + std::max<size_t>(train, 1), exist);
  // Mirrored problems lie side by side until here.
  shuffle(splits.held_out, draw);
  shuffle(splits.validation, draw);
  shuffle(splits.train, draw);
  return splits;
}

bool is_right(const Example& example, std::string_view reply) {
  return kind_of(example.task).right(example, reply);
}

bool is_well_formed(const Example& example, std::string_view reply) {
  return kind_of(example.task).well_formed(example, reply);
}

double partial_credit(const Example& example, std::string_view reply) {
  return kind_of(example.task).credit(example, reply);
}

}  // namespace strata::rl
