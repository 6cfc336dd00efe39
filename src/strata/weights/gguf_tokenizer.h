// The tokenizer inside a GGUF file, written as Hugging Face writes one.
#pragma once

#include <cstdint>
#include <string>

#include "strata/base/json.h"
#include "strata/weights/gguf.h"

namespace strata::weights {

struct GgufTokenizer {
  Json tokenizer;          // tokenizer.json
  Json tokenizer_config;   // tokenizer_config.json, with the chat template
  Json generation_config;  // generation_config.json: bos, eos (a list when there are several), pad
  std::string chat_template;  // empty when the file has none
};

// Byte-level BPE only (tokenizer.ggml.model = gpt2). The way text is split before merging follows
// tokenizer.ggml.pre; control tokens become special, user-defined ones plain added tokens, unused
// ones are left out. Throws not_found, invalid_argument or data_loss naming the key, and
// unimplemented for another model or split. `vocab_size` is the number of embedding rows.
GgufTokenizer read_gguf_tokenizer(const GgufFile& file, int64_t vocab_size, int64_t context_length);

}  // namespace strata::weights
