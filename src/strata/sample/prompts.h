// Prompts of every form as token ids: the one path that the command line, files of requests and
// servers share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/data/chat_template.h"
#include "strata/data/tokenizer.h"

namespace strata::sample {

// Immutable and cheap to copy; thread-safe.
class Prompts {
 public:
  // Neither texts nor chats.
  Prompts() = default;
  Prompts(std::optional<data::Tokenizer> tokenizer, std::optional<data::ChatTemplate> chat)
      : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)) {}
  // What the model's directory has: a tokenizer, a chat template, both or none. Throws as the
  // loaders, but for files that are not there.
  static Prompts load(const std::filesystem::path& directory);

  const std::optional<data::Tokenizer>& tokenizer() const { return tokenizer_; }

  // A text as it stands, with what the tokenizer puts in front (usually one BOS). Special tokens
  // written in it are recognised. Throws failed_precondition "sample.no_tokenizer".
  std::vector<int32_t> of_text(std::string_view text) const;
  // A conversation, ready for the assistant's next message. The template writes the control tokens;
  // text inside a message never becomes one. Throws failed_precondition "sample.no_tokenizer" or
  // "sample.no_chat_template", and as encode_chat.
  std::vector<int32_t> of_chat(const Json& messages) const;

 private:
  const data::Tokenizer& require_tokenizer() const;

  std::optional<data::Tokenizer> tokenizer_;
  std::optional<data::ChatTemplate> chat_;
};

}  // namespace strata::sample
