#include "strata/rl/rollout_source.h"

namespace strata::rl {

std::optional<Evaluation> evaluate(RolloutSource& source, std::span<const Example> examples,
                                   int64_t max_new_tokens,
                                   const std::function<bool()>& interrupted) {
  std::vector<const Example*> list;
  for (const Example& e : examples) list.push_back(&e);
  RolloutSpec spec;
  spec.temperature = 0;
  spec.max_new_tokens = max_new_tokens;
  spec.interrupted = interrupted;
  std::vector<RolloutGroup> groups = source.sample(list, spec);
  if (groups.size() < list.size()) return std::nullopt;
  Evaluation out;
  int64_t right = 0;
  for (const RolloutGroup& g : groups) {
    const Rollout& r = g.rollouts.front();
    bool ok = r.finished && is_right(*g.example, r.text);
    out.replies.push_back(r.text);
    out.right.push_back(ok ? 1 : 0);
    right += ok ? 1 : 0;
  }
  if (!out.right.empty()) {
    out.accuracy = static_cast<double>(right) / static_cast<double>(out.right.size());
  }
  return out;
}

}  // namespace strata::rl
