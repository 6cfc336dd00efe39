// The `pre_tokenizer` of tokenizer.json: cuts a text into the words within which BPE merges.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"

namespace strata::data {

// A chain of steps, each of which cuts every word of the one before. Immutable; thread-safe.
class PreTokenizer {
 public:
  // Reads Split (String or Regex pattern, all five behaviours, invert), Digits, ByteLevel, and
  // Sequence of these; ByteLevel must come last. Throws data_loss when malformed, unimplemented
  // for other kinds, naming `where` and the kind.
  PreTokenizer(const Json& description, const std::string& where);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The words of well-formed `text` in order, raw bytes (not the byte-level alphabet). They may
  // carry a prefix space that the text lacks, so they are handed to `take` instead of returned as
  // views; a view is valid only during the call.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void take(std::string_view word) = 0;
  };
  void cut(std::string_view text, Sink* sink) const;

 private:
  class Step;
  class Split;
  class Digits;
  void add(const Json& description, const std::string& where);

  std::vector<std::unique_ptr<Step>> steps_;  // those before ByteLevel
  std::unique_ptr<Step> last_;                // ByteLevel's own pattern, if it uses one
  bool byte_level_ = false;
  bool prefix_space_ = false;
};

}  // namespace strata::data
