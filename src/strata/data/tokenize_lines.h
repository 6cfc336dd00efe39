// The work of `strata tokenize`: JSON lines in, JSON lines out.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "strata/data/tokenizer.h"

namespace strata::data {

struct TokenizeOptions {
  bool decode = false;             // {"ids": […]} → {"text": …} instead of the reverse
  bool plain = false;              // special tokens written in the text are ordinary text
  bool add_special_tokens = true;  // the post-processor's BOS, as HF's encode adds it
  std::string where = "<stdin>";   // names the input in errors
};

// Reads {"text": string} lines and writes {"ids": [int…]} lines, or the reverse; blank lines are
// skipped. Decoding keeps special tokens. Returns the number of lines written. Throws data_loss
// or invalid_argument naming `where`:line for a line that is not such an object or an id without a
// token; lines before it are written already.
size_t tokenize_lines(std::istream& in, std::ostream& out, const Tokenizer& tokenizer,
                      const TokenizeOptions& options = {});

}  // namespace strata::data
