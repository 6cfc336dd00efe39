#include "strata/rl/aggregate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::rl {
namespace {

int64_t count_trained(const std::vector<uint8_t>& mask) {
  return static_cast<int64_t>(mask.size()) - std::count(mask.begin(), mask.end(), 0);
}

void check_length(const std::vector<int64_t>& tokens, int64_t max_tokens) {
  int64_t longest = tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
  require(max_tokens >= 1 && longest <= max_tokens,
          {.id = "rl.aggregation_length",
           .where = "aggregation 'constant'",
           .expected = fmt::format("max_tokens of at least {}, the longest completion",
                                   std::max<int64_t>(longest, 1)),
           .got = fmt::format("{}", max_tokens)});
}

}  // namespace

Aggregation parse_aggregation(std::string_view name) {
  const std::array<std::string, 3> known = {"sequence_mean", "token_mean", "constant"};
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) return static_cast<Aggregation>(i);
  }
  fail({.id = "rl.aggregation",
        .where = "aggregation",
        .expected = "one of " + join(known, ", "),
        .got = "'" + std::string(name) + "'",
        .cure = "Did you mean '" + nearest(name, known) + "'?"});
}

StepWeights step_weights(std::span<const std::vector<uint8_t>> masks, Aggregation aggregation,
                         int64_t max_tokens) {
  StepWeights step;
  std::vector<int64_t> tokens;
  for (const std::vector<uint8_t>& mask : masks) {
    tokens.push_back(count_trained(mask));
    step.trained_tokens += tokens.back();
    step.empty_samples += tokens.back() == 0 ? 1 : 0;
  }
  if (aggregation == Aggregation::constant) check_length(tokens, max_tokens);
  auto samples = static_cast<double>(masks.size());
  for (size_t i = 0; i < masks.size(); ++i) {
    double divisor =
        aggregation == Aggregation::sequence_mean ? samples * static_cast<double>(tokens[i])
        : aggregation == Aggregation::token_mean  ? static_cast<double>(step.trained_tokens)
                                                  : samples * static_cast<double>(max_tokens);
    std::vector<float>& row = step.weights.emplace_back();
    for (uint8_t m : masks[i]) row.push_back(m != 0 ? static_cast<float>(1 / divisor) : 0.0f);
  }
  return step;
}

}  // namespace strata::rl
