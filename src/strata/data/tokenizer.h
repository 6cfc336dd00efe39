// Text to token ids and back, equal to HF `tokenizers` id for id.
//
// Three kinds are read: byte-level BPE and the BPE of SentencePiece models ("▁", byte fallback)
// from `tokenizer.json`, and SentencePiece from `tokenizer.model` where there is no tokenizer.json.
// In decoding, bytes that are no UTF-8 become U+FFFD, one for each ill-formed part; HF gives the
// second kind one for each byte of a run of byte tokens. `truncation` and `padding` of
// tokenizer.json are not applied: cutting and padding are the batch's business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/data/added_tokens.h"

namespace strata::data {

struct EncodeOptions {
  // Adds what the post-processor says (usually one BOS). Leave it off for a rendered chat
  // template: the template writes its own BOS.
  bool add_special_tokens = true;
  // The text of special tokens is ordinary text. Added tokens that are not special ("<think>")
  // are still recognised (HF's split_special_tokens).
  bool plain = false;
};

struct DecodeOptions {
  bool skip_special = false;
};

// Immutable and cheap to copy (copies share one model); thread-safe.
class Tokenizer {
 public:
  // `path`: a tokenizer.json, a tokenizer.model, or a directory that holds one of them (the former
  // is preferred). Throws not_found, data_loss or unimplemented naming the file and the key.
  static Tokenizer load(const std::filesystem::path& path);
  // Parses the text of a tokenizer.json; `where` names it in errors.
  static Tokenizer from_json(std::string_view text, const std::string& where);

  // Ill-formed UTF-8 in `text` is read as U+FFFD, as HF would get it. Time is O(n log n).
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Encodes `text` as one piece, without adding special tokens; no special token is recognised
  // inside a protected range or across its border. `ranges` are sorted and disjoint. `continues`:
  // the text follows another one, so SentencePiece's prefix space stands for a space that it
  // begins with. `behind_token`: what it follows ends with an added token. `text` must be
  // well-formed UTF-8 (throws invalid_argument).
  std::vector<int32_t> encode_protected(std::string_view text,
                                        std::span<const ProtectedRange> ranges,
                                        bool continues = false, bool behind_token = false) const;

  // Where added tokens stand in `text` under the same rules, in order. Those that are looked for
  // in normalized text are left out where normalization changes it.
  std::vector<TextPart> find_added(std::string_view text,
                                   std::span<const ProtectedRange> ranges) const;

  // Text of the ids; bytes that are no UTF-8 become U+FFFD. Ids without a token (a model's
  // padding rows) contribute nothing, as in HF.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Largest id + 1: the rows that a model's embedding must have at least.
  int32_t vocab_size() const;
  // Whether the id has a token.
  bool has(int32_t id) const;
  bool is_special(int32_t id) const;
  // The id of an added token's text, or of a token as the vocabulary spells it ("Ġthe").
  std::optional<int32_t> token_id(std::string_view token) const;
  // The bytes that the id contributes to a text. Throws out_of_range for an id without a token.
  std::string_view id_to_bytes(int32_t id) const;
  // Ids that `add_special_tokens` puts in front.
  std::span<const int32_t> prefix_ids() const;
  // Whether decoding drops one leading space (SentencePiece).
  bool drops_leading_space() const;
  // For decoders: whether the id is a byte by name ("<0x0A>"); whether it counts as the start of
  // a text; its bytes there, perhaps without spaces (valid as long as `storage` and this).
  bool is_byte(int32_t id) const;
  bool begins_text(int32_t id) const;
  std::string_view without_first_space(int32_t id, std::string* storage) const;

 private:
  struct Model;
  explicit Tokenizer(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

// Decodes one id at a time, holding back bytes that may still become a character. The texts that
// `push` and `finish` return, joined, equal `decode` of all ids. One per stream, one thread.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options = {});
  // The text that has become certain.
  std::string push(int32_t id);
  // What was held back, as U+FFFD; the decoder can be used for a new text afterwards.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::string take_byte_run();
  std::string pending_;
  std::string byte_run_;  // of byte tokens
  bool at_start_ = true;
};

}  // namespace strata::data
