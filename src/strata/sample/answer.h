// One answer under way: what the scheduler keeps of it between steps. Internal to room sample.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/sample/answer_text.h"
#include "strata/sample/request.h"
#include "strata/sample/row_decoder.h"

namespace strata::sample {

// A request, shared by its answers.
struct Prompt {
  Request request;
  uint64_t seed = 0;
  uint64_t id_hash = 0;
  std::vector<int32_t> stop_ids;  // all tokens that end an answer
  int64_t budget = 0;             // new tokens at most
  int64_t waiting = 0;            // answers that have not started
  std::optional<PromptState> state;

  int64_t size() const { return static_cast<int64_t>(request.tokens.size()); }
};

// Whether the settings filter the distribution (greedy answers never do).
bool uses_filters(const SamplingSettings& settings);
// Whether they change the logits of tokens in prompt or output.
bool uses_penalties(const SamplingSettings& settings);

class Answer {
 public:
  Answer(std::shared_ptr<Prompt> prompt, int64_t sample,
         const std::optional<data::Tokenizer>& tokenizer);

  const std::shared_ptr<Prompt>& prompt() const { return prompt_; }
  const SamplingSettings& settings() const { return prompt_->request.settings; }
  // The position of the token that the next step feeds.
  int64_t position() const { return position_; }
  // New tokens it may still get.
  int64_t remaining() const;
  // Whether its logits need edits at some time.
  bool uses_edits() const;

  // Fills its words of a decode step (kRowWords).
  void write_words(std::span<uint32_t> words) const;
  // Fills its edits (id, code), as many as there are.
  void write_edits(std::span<int32_t> edits) const;

  // Takes a new token. Returns why the answer ended, if it did; calls on_token.
  std::optional<FinishReason> accept(int32_t token, float logprob, uint64_t version);
  // The finished answer.
  Result take(FinishReason reason, std::string error);

 private:
  bool stops(int32_t token) const;
  void note(int32_t token, int32_t code);

  std::shared_ptr<Prompt> prompt_;
  AnswerText text_;
  Result result_;
  int64_t position_;
  int32_t last_;
  // Tokens that the penalties look at, with their codes (see draw.h).
  std::vector<std::pair<int32_t, int32_t>> noted_;
  std::unordered_map<int32_t, size_t> noted_at_;
};

}  // namespace strata::sample
