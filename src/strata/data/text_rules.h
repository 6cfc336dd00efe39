// The `normalizer` and the `decoder` of tokenizer.json: what happens to a text before it is cut
// into words, and how the spelling of a token becomes text again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/data/utf8.h"

namespace strata::data {

// What stands before a stretch of text in the text that it was cut from.
enum class Before { nothing, token, text };

// One step of a normalizer.
struct NormalStep {
  enum class Kind {
    form,     // a Unicode normalization form
    prepend,  // `to` in front of a stretch, unless other text stands before it
    replace,  // `from` by `to`
  };
  Kind kind = Kind::form;
  NormalForm form = NormalForm::nfc;
  std::string from;
  std::string to;
};

// `text` (well-formed) after all steps.
std::string normalized(std::string_view text, const std::vector<NormalStep>& steps, Before before);

// Reads NFC, NFD, NFKC, NFKD, Prepend, Replace of a text, and Sequence of these. Throws
// unimplemented naming other kinds, data_loss when malformed.
std::vector<NormalStep> read_normalizer(const Json& normalizer, const std::string& where);

// What becomes of spaces at the start of decoded text.
enum class FirstSpace {
  stays,
  goes,           // one space at the start of the text
  goes_in_token,  // all spaces of the first token
};

// How tokens are spelled.
struct Spelling {
  bool byte_level = false;  // in the alphabet of bpe.h; the rest is for other spellings
  std::string space;        // what stands for a space ("▁"); empty: nothing does
  bool bytes = false;       // "<0x0A>" is a byte
  FirstSpace first = FirstSpace::stays;

  // Whether a token is spelled as a byte, "<0x0A>".
  bool is_byte(std::string_view spelled) const;
  // The bytes of a token.
  std::string bytes_of(std::string_view spelled) const;
};

// Reads ByteLevel, Metaspace, or a Sequence of Replace, ByteFallback, Fuse and Strip as
// SentencePiece models have it. Throws unimplemented naming other kinds.
Spelling read_decoder(const Json& decoder, const std::string& where);

// The name of a byte in vocabularies with byte fallback, "<0x0A>".
std::string byte_token(uint8_t byte);

}  // namespace strata::data
