// The `pre_tokenizer` of tokenizer.json: cuts a text into the words within which BPE merges.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/data/text_rules.h"

namespace strata::data {

// A chain of steps, each of which cuts every word of the one before. Immutable; thread-safe.
class PreTokenizer {
 public:
  // Reads Split (String or Regex pattern, all five behaviours, invert), Digits, ByteLevel,
  // Metaspace, and Sequence of these. `byte_level`: ByteLevel must be there, as the last; otherwise
  // it must not, Metaspace may come first, and null cuts nothing. Throws data_loss when malformed,
  // unimplemented for other kinds, naming `where` and the kind.
  PreTokenizer(const Json& description, const std::string& where, bool byte_level);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The words of well-formed `text` in order, raw bytes (not the byte-level alphabet). They may
  // carry a prefix or marks that the text lacks, so they are handed to `take` instead of returned
  // as views; a view is valid only during the call.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void take(std::string_view word) = 0;
  };
  void cut(std::string_view text, Before before, Sink* sink) const;

 private:
  class Step;
  class Split;
  class Digits;
  // Spaces become marks, and a mark is put in front.
  struct Metaspace {
    std::string mark;
    bool at_start = false;      // in front of the whole text
    bool behind_token = false;  // in front of text behind an added token as well
    bool split = false;         // each mark begins a word
  };
  void add(const Json& description, const std::string& where);
  void add_metaspace(const Json& description, const std::string& where);
  void add_step(const std::string& type, const Json& description, const std::string& where);
  std::string marked(std::string_view text, Before before) const;

  std::optional<Metaspace> metaspace_;
  std::vector<std::unique_ptr<Step>> steps_;  // those before ByteLevel
  std::unique_ptr<Step> last_;                // ByteLevel's own pattern, if it uses one
  bool wants_byte_level_ = false;
  bool byte_level_ = false;  // ByteLevel was read
  bool prefix_space_ = false;
};

}  // namespace strata::data
