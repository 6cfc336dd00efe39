// Requests and results as JSON lines.
//   {"id": "a", "prompt": "text"}  {"messages": [{"role": "user", "content": "…"}]}
//   {"tokens": [1, 2, 3], "max_new_tokens": 16, "temperature": 0.5}
// A line has one of prompt, messages and tokens; "id" (a text or an integer) is the line's number
// when absent; every other key is a setting of SamplingSettings.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/sample/prompts.h"
#include "strata/sample/request.h"

namespace strata::sample {

struct RequestLine {
  Json id;  // as it was written
  Request request;
};

// One line; `where` ("file:3") prefixes errors. Settings not named are those of `defaults`. Throws
// data_loss for what is no JSON object; invalid_argument "sample.request_keys" (not exactly one
// kind of prompt), "sample.request_key" (an unknown key, with the nearest one),
// "sample.request_type" (a value of another type); and as Prompts, set_field and check.
RequestLine parse_request(std::string_view line, const std::string& where, int64_t number,
                          const Prompts& prompts, const SamplingSettings& defaults);

// All lines of a file; empty ones are skipped. Also throws as read_file, not_found
// "sample.no_requests" for a file without any, already_exists "sample.request_twice" naming both
// lines.
std::vector<RequestLine> read_requests(const std::filesystem::path& path, const Prompts& prompts,
                                       const SamplingSettings& defaults);

// {"id", "tokens", "logprobs", "text", "finish_reason"}, with "sample" when `numbered` and "error"
// when there is one; without the line break.
std::string result_line(const Result& result, const Json& id, bool numbered);

}  // namespace strata::sample
