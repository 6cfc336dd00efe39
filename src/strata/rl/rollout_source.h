// Where completions come from: the in-process sampler, a remote one, or a script in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "strata/rl/grpo_step.h"

namespace strata::rl {

struct RolloutSpec {
  int64_t group_size = 1;
  double temperature = 1.0;  // 0 = greedy
  int64_t max_new_tokens = 64;
  uint64_t seed = 0;
  uint64_t stream = 0;  // with the example's place it makes each completion's own random stream
  // Asked between tokens; may be empty.
  std::function<bool()> interrupted = {};
};

class RolloutSource {
 public:
  virtual ~RolloutSource() = default;
  // `group_size` completions of each example's prompt, in order, under the parameters published
  // now. Log-probs are those of the distribution that was sampled from. Throws what the sampler
  // throws; nothing is half done. Returns nothing when spec.interrupted said so: the same call
  // gives the same completions again.
  virtual std::vector<RolloutGroup> sample(std::span<const Example* const> examples,
                                           const RolloutSpec& spec) = 0;
};

// Share of examples whose greedy completion ends by itself and is right, with the replies.
struct Evaluation {
  double accuracy = 0;
  std::vector<std::string> replies;
  std::vector<uint8_t> right;
};
// Nothing when `interrupted`, which is asked between tokens, said so.
std::optional<Evaluation> evaluate(RolloutSource& source, std::span<const Example> examples,
                                   int64_t max_new_tokens,
                                   const std::function<bool()>& interrupted = {});

}  // namespace strata::rl
