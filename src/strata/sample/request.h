// What goes into a sampler and what comes out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/sample/settings.h"

namespace strata::sample {

enum class FinishReason { stop, length, error, cancelled };
std::string_view name_of(FinishReason reason);

// One new token of one answer. `text` is what became certain with it: it may lag behind the tokens.
struct TokenEvent {
  const std::string& id;
  int64_t sample;
  int32_t token;
  float logprob;
  std::string_view text;
};

struct Request {
  std::string id;  // unique among the sampler's unfinished requests; part of the random key
  std::vector<int32_t> tokens;  // the prompt
  SamplingSettings settings;
  // Called on the sampler's thread for each token, in order; may be empty. The last of an answer's
  // text may come with the result only.
  std::function<void(const TokenEvent&)> on_token = {};
};

// One answer: a request of n samples gives n of them.
struct Result {
  std::string id;
  int64_t sample = 0;
  int64_t prompt_tokens = 0;
  // The new tokens, including the one that ended the answer, and the log-probability of each.
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  // Their text without special tokens, up to the stop text or the ending token.
  std::string text;
  FinishReason finish_reason = FinishReason::length;
  std::string error;  // with FinishReason::error: what went wrong
  // Versions of the parameters that gave the first and the last token.
  uint64_t first_version = 0;
  uint64_t last_version = 0;
};

}  // namespace strata::sample
