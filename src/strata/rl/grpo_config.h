// The TOML configuration of `strata train grpo`, as data.
#pragma once

#include <filesystem>
#include <vector>

#include "strata/base/config.h"
#include "strata/checkpoint/checkpoint_writer.h"
#include "strata/rl/grpo_step.h"
#include "strata/rl/optimizer_config.h"
#include "strata/rl/session.h"
#include "strata/rl/train_programs.h"

namespace strata::rl {

// Keys under [run]: output, seed, resume, save_every, save_seconds, max_seconds, save_mode
// (snapshot, stream), keep_last, keep_every, use_average, export.
struct RunConfig {
  std::filesystem::path output;
  uint64_t seed = 0;
  int64_t save_every = 0;   // steps; 0 = at the end and when interrupted
  double save_seconds = 0;  // saves when the last one is so long ago, also between micro-steps
  double max_seconds = 0;   // stops after so long as Ctrl-C does; 0 = never
  checkpoint::SaveMode save_mode = checkpoint::SaveMode::snapshot;
  int64_t keep_last = 2;
  int64_t keep_every = 0;  // steps whose checkpoints stay; 0 = none
  bool resume = false;
  // Whether the weight average, where the run keeps one, is what is evaluated and exported.
  bool use_average = true;
};
RunConfig read_run(Config& config);

struct GrpoConfig {
  SessionOptions session;
  std::string plugin;  // name or path
  RunConfig run;
  OptimizerConfig optimizer;
  TaskConfig task;
  std::filesystem::path data;  // JSONL prompts instead of a task; empty = the task
  std::vector<RewardConfig> rewards;
  GrpoOptions step;
  TrainOptions train;
  BatchShape shape;  // tokens = 0: chosen from the prompts
  int64_t steps = 0;
  int64_t prompts_per_step = 0;
  int64_t group_size = 0;
  int64_t eval_every = 0;  // steps; 0 = only before and after
  Json effective;          // every key with the value in force
};

// Reads the whole configuration and refuses unknown keys. Throws naming file:line and key.
GrpoConfig read_grpo_config(Config& config);

}  // namespace strata::rl
