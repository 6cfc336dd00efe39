// SentencePiece models (tokenizer.model) through libsentencepiece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/data/added_tokens.h"

namespace strata::data {

// Immutable after loading; thread-safe.
class SentencePieceModel {
 public:
  // Throws not_found or data_loss naming the file.
  explicit SentencePieceModel(const std::filesystem::path& path);
  SentencePieceModel(SentencePieceModel&&) noexcept;
  SentencePieceModel& operator=(SentencePieceModel&&) noexcept;
  ~SentencePieceModel();

  // Appends the ids of well-formed text. Every call adds the model's own prefix space.
  void encode(std::string_view text, std::vector<int32_t>* ids) const;

  int32_t size() const;
  // The piece as it is spelled ("▁the").
  std::string spelling(int32_t id) const;
  // The bytes that the piece contributes to a text: "▁" is a space, "<0x0A>" one byte.
  std::string bytes(int32_t id) const;
  // Control pieces ("<s>", "</s>") as tokens to look for in the text.
  std::vector<AddedToken> control_tokens() const;
  int32_t bos_id() const;  // -1: none
  // Whether the model sets a space before a text, which decoding takes away again.
  bool adds_prefix_space() const { return prefix_space_; }

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
  bool prefix_space_ = false;
};

}  // namespace strata::data
