// What a request may ask of the sampler, and the limits of each setting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"

namespace strata::sample {

struct SamplingSettings {
  // None: as many as the context has room for, at most kDefaultNewTokens.
  std::optional<int64_t> max_new_tokens;
  int64_t min_new_tokens = 0;     // no stop id is drawn before that many tokens
  double temperature = 1;         // 0 = the most likely token, whatever the filters say
  int64_t top_k = 0;              // 0 or -1 = off
  double top_p = 1;               // 1 = off; 0 keeps the most likely token
  double min_p = 0;               // 0 = off
  double repetition_penalty = 1;  // > 1 makes tokens of prompt and output less likely
  double frequency_penalty = 0;   // subtracted for each time a token was generated
  double presence_penalty = 0;    // subtracted once it was generated
  std::vector<std::string> stop;  // texts that end the answer and are not part of it
  std::vector<int32_t> stop_ids;  // tokens that end it, besides the model's end-of-text tokens
  bool ignore_eos = false;        // the model's end-of-text tokens do not end it
  // The log-probabilities are those after penalties and filters instead of before.
  bool processed_logprobs = false;
  // None: the sampler's own, which differs from run to run unless it was set.
  std::optional<uint64_t> seed;
  int64_t samples = 1;  // answers to the same prompt, which is computed once
};

inline constexpr int64_t kDefaultNewTokens = 256;

// Throws out_of_range "sample.setting" naming `where`, the field, its limits and the value.
void check(const SamplingSettings& settings, const std::string& where);

// The settings' names, as they stand in JSON lines and, with dashes, on the command line.
std::vector<std::string> setting_names();

// Sets the field `name` from a JSON value. Throws invalid_argument "sample.setting_type" for a
// value of another type; `name` must be one of setting_names().
void set_field(SamplingSettings& settings, std::string_view name, const Json& value,
               const std::string& where);

}  // namespace strata::sample
