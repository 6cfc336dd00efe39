#include "strata/sample/answer.h"

#include <algorithm>
#include <bit>

namespace strata::sample {
namespace {

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint32_t bits(double x) { return std::bit_cast<uint32_t>(static_cast<float>(x)); }

}  // namespace

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::error:
      return "error";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "error";
}

bool uses_filters(const SamplingSettings& s) {
  return s.temperature > 0 && (s.top_k > 0 || s.top_p < 1 || s.min_p > 0);
}

bool uses_penalties(const SamplingSettings& s) {
  return s.repetition_penalty != 1 || s.frequency_penalty != 0 || s.presence_penalty != 0;
}

Answer::Answer(std::shared_ptr<Prompt> prompt, int64_t sample,
               const std::optional<data::Tokenizer>& tokenizer)
    : prompt_(std::move(prompt)),
      text_(tokenizer, prompt_->request.settings.stop),
      position_(prompt_->size() - 1),
      last_(prompt_->request.tokens.back()) {
  result_.id = prompt_->request.id;
  result_.sample = sample;
  result_.prompt_tokens = prompt_->size();
  if (!uses_penalties(settings())) return;
  for (int32_t id : prompt_->request.tokens) note(id, kEditSeen);
}

void Answer::note(int32_t token, int32_t code) {
  auto [it, added] = noted_at_.emplace(token, noted_.size());
  if (added) noted_.emplace_back(token, 0);
  int32_t& old = noted_[it->second].second;
  old = (old | (code & kEditSeen)) + (code & ~kEditSeen);
}

int64_t Answer::remaining() const {
  return prompt_->budget - static_cast<int64_t>(result_.tokens.size());
}

bool Answer::uses_edits() const {
  return uses_penalties(settings()) ||
         (settings().min_new_tokens > 0 && !prompt_->stop_ids.empty());
}

void Answer::write_words(std::span<uint32_t> words) const {
  const SamplingSettings& s = settings();
  words[kToken] = static_cast<uint32_t>(last_);
  words[kPosition] = static_cast<uint32_t>(position_);
  words[kSeedLow] = low(prompt_->seed);
  words[kSeedHigh] = high(prompt_->seed);
  words[kRequestLow] = low(prompt_->id_hash);
  words[kRequestHigh] = high(prompt_->id_hash);
  words[kSample] = static_cast<uint32_t>(result_.sample);
  words[kTopK] = static_cast<uint32_t>(std::max<int64_t>(s.top_k, 0));
  words[kTemperature] = bits(s.temperature);
  words[kTopP] = bits(s.top_p);
  words[kMinP] = bits(s.min_p);
  words[kRepetition] = bits(s.repetition_penalty);
  words[kFrequency] = bits(s.frequency_penalty);
  words[kPresence] = bits(s.presence_penalty);
  words[kProcessed] = s.processed_logprobs ? 1 : 0;
}

void Answer::write_edits(std::span<int32_t> edits) const {
  std::vector<std::pair<int32_t, int32_t>> all = noted_;
  if (static_cast<int64_t>(result_.tokens.size()) < settings().min_new_tokens) {
    for (int32_t id : prompt_->stop_ids) {
      auto it = noted_at_.find(id);
      if (it == noted_at_.end()) {
        all.emplace_back(id, kEditBanned);
      } else {
        all[it->second].second |= kEditBanned;
      }
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    edits[2 * i] = all[i].first;
    edits[2 * i + 1] = all[i].second;
  }
}

bool Answer::stops(int32_t token) const {
  return std::find(prompt_->stop_ids.begin(), prompt_->stop_ids.end(), token) !=
         prompt_->stop_ids.end();
}

std::optional<FinishReason> Answer::accept(int32_t token, float logprob, uint64_t version) {
  if (result_.tokens.empty()) result_.first_version = version;
  result_.last_version = version;
  result_.tokens.push_back(token);
  result_.logprobs.push_back(logprob);
  if (uses_penalties(settings())) note(token, kEditSeen + kEditCount);
  last_ = token;
  ++position_;
  std::optional<FinishReason> reason;
  std::string text;
  if (stops(token)) {
    reason = FinishReason::stop;
  } else {
    text = text_.push(token);
    if (text_.stopped()) reason = FinishReason::stop;
  }
  if (!reason && remaining() == 0) reason = FinishReason::length;
  if (reason) text += text_.finish();
  // A stop text may only become visible when everything is decoded.
  if (reason && text_.stopped()) reason = FinishReason::stop;
  const Request& request = prompt_->request;
  if (request.on_token) {
    request.on_token({request.id, result_.sample, token, logprob, text});
  }
  return reason;
}

Result Answer::take(FinishReason reason, std::string error) {
  text_.finish();
  result_.text = text_.text();
  result_.finish_reason = reason;
  result_.error = std::move(error);
  return std::move(result_);
}

}  // namespace strata::sample
