#include "strata/sample/answer_text.h"

#include <algorithm>
#include <string_view>

namespace strata::sample {
namespace {

// Length of the longest end of `text` that is a beginning of `stop` (and not all of it).
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

AnswerText::AnswerText(const std::optional<data::Tokenizer>& tokenizer,
                       std::vector<std::string> stop)
    : stop_(std::move(stop)) {
  if (tokenizer) decoder_.emplace(*tokenizer, data::DecodeOptions{.skip_special = true});
}

std::string AnswerText::push(int32_t id) {
  if (!decoder_ || stopped_) return {};
  held_ += decoder_->push(id);
  return release(false);
}

std::string AnswerText::finish() {
  if (!decoder_ || stopped_) return {};
  held_ += decoder_->finish();
  return release(true);
}

std::string AnswerText::release(bool all) {
  size_t found = std::string::npos, hold = 0;
  for (const std::string& stop : stop_) {
    found = std::min(found, held_.find(stop));
    hold = std::max(hold, overlap(held_, stop));
  }
  std::string out;
  if (found != std::string::npos) {
    stopped_ = true;
    out = held_.substr(0, found);
    held_.clear();
  } else {
    out = held_.substr(0, held_.size() - (all ? 0 : hold));
    held_.erase(0, out.size());
  }
  text_ += out;
  return out;
}

}  // namespace strata::sample
