// Whole GRPO steps as `strata train grpo` takes them (sampling, rewards, gradients, AdamW,
// metrics): 2 prompts x 8 completions of at most 16 tokens of integer addition. A step for each
// "go" on standard input (serve.h); the first one compiles.
//
//   grpo_bench MODEL_DIR OUTPUT_DIR
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "serve.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/pjrt/plugin.h"
#include "strata/rl/grpo.h"
#include "strata/rl/sampler_rollouts.h"

namespace strata::bench {
namespace {

constexpr const char* kConfig = R"(
[task]
name = "arithmetic"
validation = 0
held_out = 0
[[rewards]]
kind = "shaped"
[grpo]
steps = 1000000
prompts_per_step = 2
group_size = 8
max_new_tokens = 16
[optimizer]
name = "adamw"
lr = 1e-6
weight_decay = 0.0
clip_norm = 1.0
[train]
row_tokens = 336  # two groups of 46 + 8 x 15 tokens
scored_tokens = 256
)";

// Called before each step: answers for the last one and waits for the next word.
class Server {
 public:
  bool operator()() {
    if (started_) {
      fmt::print("{}\n", Json{{"name", "strata"}, {"seconds", clock_.seconds()}}.dump());
      std::fflush(stdout);
    }
    std::string line;
    do {
      if (!std::getline(std::cin, line)) std::_Exit(0);  // a checkpoint is not wanted
    } while (line != "go");
    started_ = true;
    clock_ = Stopwatch();
    return false;
  }

 private:
  bool started_ = false;
  Stopwatch clock_;
};

int run(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: grpo_bench MODEL_DIR OUTPUT_DIR\n");
    return 2;
  }
  std::vector<std::string> places{"model.path=" + Json(argv[1]).dump(),
                                  "run.output=" + Json(argv[2]).dump()};
  Config file = Config::from_text(kConfig, "grpo_bench", places);
  auto compiler = std::make_shared<runtime::Compiler>(
      pjrt::Client::create(pjrt::Plugin::load("cpu", {.deps_dir = STRATA_DEPS_DIR})));
  rl::GrpoRun run(rl::read_grpo_config(file), compiler, rl::make_sampler_rollouts);
  Server server;
  run.run([&](rl::StopPoint point) { return point == rl::StopPoint::step && server(); });
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    return strata::bench::run(argc, argv);
  } catch (const strata::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
