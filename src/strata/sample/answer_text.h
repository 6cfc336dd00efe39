// The text of an answer while it grows, and the texts that end it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/data/tokenizer.h"

namespace strata::sample {

// Decodes token by token (special tokens leave no text) and finds stop texts wherever they lie
// between tokens. Text that may turn out to be the beginning of a stop text is held back.
class AnswerText {
 public:
  // Without a tokenizer there is no text. `stop` are texts that are not empty.
  AnswerText(const std::optional<data::Tokenizer>& tokenizer, std::vector<std::string> stop);

  // The text that has become certain, which is appended to text(). Nothing once stopped.
  std::string push(int32_t id);
  // What was held back; the answer is over.
  std::string finish();
  // Whether a stop text was found: text() is what stands before it.
  bool stopped() const { return stopped_; }
  const std::string& text() const { return text_; }

 private:
  std::string release(bool all);

  std::optional<data::StreamDecoder> decoder_;
  std::vector<std::string> stop_;
  std::string held_;
  std::string text_;
  bool stopped_ = false;
};

}  // namespace strata::sample
