#include "strata/sample/prompts.h"

#include <string>

#include "strata/base/error.h"
#include "strata/data/chat_encode.h"

namespace strata::sample {
namespace {

// What `load` gives, or nothing where the file is not there.
template <class Load>
auto if_there(const Load& load) -> std::optional<decltype(load())> {
  try {
    return load();
  } catch (const Error& e) {
    if (e.code() != Code::not_found) throw;
    return std::nullopt;
  }
}

}  // namespace

Prompts Prompts::load(const std::filesystem::path& directory) {
  return {if_there([&] { return data::Tokenizer::load(directory); }),
          if_there([&] { return data::ChatTemplate::load(directory); })};
}

const data::Tokenizer& Prompts::require_tokenizer() const {
  require(tokenizer_.has_value(), {.id = "sample.no_tokenizer",
                                   .where = "prompt",
                                   .expected = "a tokenizer in the model's directory",
                                   .got = "none",
                                   .cure = "Give the prompt as token ids",
                                   .code = Code::failed_precondition});
  return *tokenizer_;
}

std::vector<int32_t> Prompts::of_text(std::string_view text) const {
  return require_tokenizer().encode(text);
}

std::vector<int32_t> Prompts::of_chat(const Json& messages) const {
  const data::Tokenizer& tokenizer = require_tokenizer();
  require(chat_.has_value(), {.id = "sample.no_chat_template",
                              .where = "messages",
                              .expected = "a chat template in the model's directory",
                              .got = "none",
                              .cure = "Give the rendered text as `prompt`",
                              .code = Code::failed_precondition});
  return data::encode_chat(tokenizer, *chat_, messages, {.add_generation_prompt = true}).ids;
}

}  // namespace strata::sample
