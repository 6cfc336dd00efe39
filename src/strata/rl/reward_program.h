// A reward from an executable in any language. It is started once and asked batch after batch, in
// JSON lines: it reads questions from its standard input and prints answers to its standard output,
// in any order, one for each question. Its standard error is ours, so it may log there.
//
// Question (one line):
//   {"id": "arithmetic:3+17#2", "task": "arithmetic",
//    "messages": [{"role": "user", "content": "What is 3 + 17? ..."}],
//    "answer": "20", "meta": {...}, "completion": "20", "finished": true, "tokens": 3,
//    "last": false}
// `last` is true in the last question of a batch, for programs that answer a batch at once.
// Bytes of a completion that are no UTF-8 arrive as U+FFFD.
//
// Answer (one line): {"id": "arithmetic:3+17#2", "reward": 0.5}
// or, for a sample that cannot be judged: {"id": "arithmetic:3+17#2", "error": "why"}.
// A reward of null or NaN fails that sample too. Flush after each line, or at least after the last.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/rl/reward.h"

namespace strata::rl {

struct ProgramRewardOptions {
  // The program, looked up in PATH, and its arguments.
  std::vector<std::string> command;
  // For a whole batch, writing and reading.
  double deadline_seconds = 60;
};

class ProgramReward : public Reward {
 public:
  // Starts the program, so that a wrong command is known before any training. Throws
  // invalid_argument (rl.reward_program_deadline) unless 0 < deadline_seconds <= 1e6, or as
  // ChildProcess.
  explicit ProgramReward(ProgramRewardOptions options);

  // A program that dies, hangs past the deadline or prints something that is no answer is ended:
  // the samples it had not answered fail, and the next batch starts a fresh one.
  std::vector<RewardValue> score(std::span<const RewardSample> samples) override;

 private:
  void ask(std::span<const RewardSample> samples, double deadline);
  void read_answers(std::span<const RewardSample> samples, double deadline,
                    std::vector<RewardValue>& values);
  Json read_answer(double deadline);
  double left(double deadline) const;

  ProgramRewardOptions options_;
  Stopwatch clock_;
  std::unique_ptr<ChildProcess> program_;
};

}  // namespace strata::rl
