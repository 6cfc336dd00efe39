// Messages → token ids, with a mask of what the assistant wrote.
//
// The one path by which fine-tuning, RL prompts and the sampler's chats become ids:
// - the template's own markers become control ids; text inside messages never does (tokens that
//   are added but not special, such as "<think>", are recognised in the assistant's messages);
// - no special tokens are added: the template writes its BOS;
// - an assistant's turn is cut off from what precedes it before encoding, so that the ids of a
//   conversation begin with the ids of its prompt, whatever the answer begins with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/data/chat_template.h"
#include "strata/data/tokenizer.h"

namespace strata::data {

struct EncodedChat {
  std::vector<int32_t> ids;
  // One per id: 1 where the assistant wrote it, including the token that ends its turn. Headers,
  // other roles and what the template puts between turns are 0.
  std::vector<uint8_t> assistant;
  std::string text;
};

// `first_trained`: assistant messages before this index get no ones. Throws as
// ChatTemplate::render.
EncodedChat encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                        const ChatOptions& options = {}, size_t first_trained = 0);

}  // namespace strata::data
