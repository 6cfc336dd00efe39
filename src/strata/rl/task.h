// Built-in verifiable tasks: problems made from a seed, cut into train, validation and held-out
// parts that share no problem, and the judging of replies.
//
//   name           problem                              options (default)
//   arithmetic     What is a + b?                       min (0), max (20), ops ("+"; any of +-*)
//   number_format  commas, leading zeros, cents         max (9999999)
//   sorting        sort `count` integers                count (5), max (99)
//   reversal       reverse a word of `length` letters   length (5)
//   countdown      reach a target with `count` numbers  count (3), max (25)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"

namespace strata::rl {

// One turn of a conversation; `role` is "system", "user" or "assistant".
struct Message {
  std::string role;
  std::string content;
};

// One problem. `id` is unique within its task and readable ("arithmetic:3+17"). `task` is empty for
// problems that did not come from a built-in task.
struct Example {
  std::string id;
  std::string task;
  std::vector<Message> messages;
  std::string answer;
  Json meta = Json::object();
};

struct TaskConfig {
  std::string name = "arithmetic";
  uint64_t seed = 0;
  // Numbers of problems. train = 0: all that are left where the task can list them (arithmetic of
  // up to a million problems), else 1,000.
  int64_t train = 0;
  int64_t validation = 60;
  int64_t held_out = 200;
  // The task's own options, as in the table above.
  Json options = Json::object();
};

// The same configuration gives the same problems in the same order, on every machine. Problems
// that give one another away (a + b and b + a; the same numbers to sort in another order; a word
// and its reverse) never lie in different parts.
struct TaskSplits {
  std::vector<Example> train, validation, held_out;
};

std::vector<std::string> task_names();

// Throws invalid_argument: rl.task_name (names the nearest), rl.task_option (an unknown option, or
// one out of its range), rl.task_size (a negative size, or more problems than there are: says how
// many).
TaskSplits make_task(const TaskConfig& config);

// Judging a reply by the rules of example.task. Where that is empty, a reply is right when it
// equals the answer, blanks around both left out. Whether the reply ended by itself is not asked
// here. Throws rl.task_name, or a json.* error when meta lacks what the task put there.

// Whether the reply answers the problem: for arithmetic, its last integer is the answer.
bool is_right(const Example& example, std::string_view reply);

// Whether the reply has the form asked for ("Answer with the number only."), right or wrong.
bool is_well_formed(const Example& example, std::string_view reply);

// How near the reply is to right, in [0, 1]; 1 whenever it is right. Arithmetic: digit_share of the
// last integer; sorting: share of places; number_format, reversal: byte_share; countdown: 1/2 for
// an expression of the right numbers, 1/4 for any expression.
double partial_credit(const Example& example, std::string_view reply);

}  // namespace strata::rl
