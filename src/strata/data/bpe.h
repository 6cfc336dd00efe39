// Byte-pair merging of one word, and the byte-level alphabet of GPT-2.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::data {

// The printable stand-in of a byte: itself where it is a visible Latin-1 character, else the next
// free one from U+0100.
uint32_t alphabet_point(uint8_t byte);

// Bytes written in the alphabet, as UTF-8 ("Ġthe").
std::string to_alphabet(std::string_view bytes);

// The bytes that an alphabet text stands for; nothing when a character is not of the alphabet.
std::optional<std::string> from_alphabet(std::string_view text);

// What tokenizer.json says of the model, already checked for shape but not for sense.
struct BpeData {
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
  std::optional<std::string> unk_token;
  bool fuse_unk = false;
  bool ignore_merges = false;
  // Tokens are spelled in the alphabet and words are bytes; else both are plain characters.
  bool byte_level = true;
  // Of characters: those that the vocabulary lacks become the tokens of their bytes.
  bool byte_fallback = false;
};

// Immutable after construction; `encode` is thread-safe (its word cache is guarded).
class Bpe {
 public:
  // Throws data_loss naming the merge or token when a merge uses tokens that the vocabulary
  // lacks, or unk_token is not in it.
  Bpe(BpeData data, const std::string& where);
  Bpe(Bpe&&) noexcept;
  Bpe& operator=(Bpe&&) noexcept;
  ~Bpe();

  // Appends the ids of one word, of raw bytes where the model is byte-level, else of well-formed
  // text: at each moment the leftmost of the pairs with the smallest rank is merged. Time
  // O(n log n) in the bytes of the word. A byte or character that the vocabulary lacks gives the
  // unknown token, or nothing without one, as in HF.
  void encode(std::string_view word, std::vector<int32_t>* ids) const;

  // The id of a token as the vocabulary spells it.
  std::optional<int32_t> find(std::string_view spelled) const;
  const std::vector<std::pair<std::string, int32_t>>& vocab() const;

 private:
  struct Tables;
  void merge(std::string_view word, std::vector<int32_t>* ids) const;
  std::unique_ptr<Tables> tables_;
};

}  // namespace strata::data
