// Reads a tokenizer.json into plain data. A document of its own kind because its vocabulary and
// merges (hundreds of thousands of entries) must not pass through a general JSON tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/data/added_tokens.h"
#include "strata/data/bpe.h"
#include "strata/data/text_rules.h"

namespace strata::data {

// Largest id that a tokenizer may use, so that no file makes us allocate without bound.
inline constexpr int32_t kMaxTokenId = (1 << 22) - 1;

struct TokenizerFile {
  BpeData bpe;
  std::vector<AddedToken> added;
  std::vector<NormalStep> normalizers;  // applied in order
  Spelling spelling;
  Json pre_tokenizer;
  std::vector<int32_t> prefix;  // ids that the post-processor puts before and behind a text
  std::vector<int32_t> suffix;
};

// Throws data_loss naming `where`, the key and what was expected for a malformed document;
// unimplemented for models other than BPE, dropout, subword prefixes, and normalizers, decoders and
// post-processors of other kinds than text_rules.h and TemplateProcessing.
TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& where);

}  // namespace strata::data
