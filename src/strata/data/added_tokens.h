// Tokens that are found in the text before it is split into words: "<|im_end|>", "<think>", …
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/data/text_rules.h"

namespace strata::data {

// One entry of `added_tokens`, with the meaning that HF tokenizers gives the flags.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only between non-word characters
  bool lstrip = false;       // swallows white space on its left
  bool rstrip = false;       // … on its right
  bool normalized = false;   // is looked for in the normalized text
  bool special = false;      // control token: left out by skip_special, plain text under `plain`
};

// A stretch of text, in bytes, that was written by somebody else than the template: no special
// token is recognised in it or across its borders.
struct ProtectedRange {
  size_t begin = 0;
  size_t end = 0;
  // Whether added tokens that are not special ("<think>", "<tool_call>") are still recognised.
  bool allow_ordinary = false;
};

// Part of a text: an added token, or plain text.
struct TextPart {
  size_t begin = 0;
  size_t end = 0;
  int32_t id = -1;  // -1: plain text
};

// Which matches count.
struct MatchRules {
  bool plain = false;                           // special tokens are ordinary text
  std::span<const ProtectedRange> ranges = {};  // sorted, disjoint
  Before before = Before::nothing;              // what stands before the text
};

// Leftmost-longest search for a set of added tokens. Immutable after `add`; reading is
// thread-safe.
class AddedTokenMatcher {
 public:
  // Looks for `pattern` (the content, perhaps normalized); an empty pattern matches nothing.
  void add(const AddedToken& token, std::string_view pattern);
  bool empty() const { return tokens_.empty(); }

  // Cuts well-formed `text` into parts that cover it; parts overlap where a token swallows white
  // space that is an added token too. Ranges refer to `text`.
  std::vector<TextPart> cut(std::string_view text, const MatchRules& rules) const;

 private:
  struct Match {
    size_t end = 0;
    const AddedToken* token = nullptr;
  };
  Match longest_at(std::string_view text, size_t begin, const MatchRules& rules) const;
  int32_t child(int32_t node, char byte) const;

  std::vector<AddedToken> tokens_;
  std::vector<int32_t> token_of_node_ = {-1};
  std::unordered_map<uint64_t, int32_t> children_;  // key: node * 256 + byte
  bool begins_[256] = {};
};

}  // namespace strata::data
