#include "strata/data/chat_encode.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "strata/base/file.h"
#include "strata/data/test_data.h"

namespace strata::data {
namespace {

using Ids = std::vector<int32_t>;
using Mask = std::vector<uint8_t>;

Tokenizer tiny() { return Tokenizer::load(data_path("tiny")); }

ChatTemplate family(const std::string& name) {
  return ChatTemplate(read_file(data_path("chat/" + name + ".jinja")), name,
                      {{"bos_token", "<|endoftext|>"}, {"eos_token", "<|im_end|>"}});
}

Json say(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// The text of the ids under the mask's ones.
std::string trained(const Tokenizer& tokenizer, const EncodedChat& chat) {
  Ids ids;
  for (size_t i = 0; i < chat.ids.size(); ++i) {
    if (chat.assistant[i] == 1) ids.push_back(chat.ids[i]);
  }
  return tokenizer.decode(ids);
}

// The case H4 of public reports: the template drops earlier thinking.
TEST(ChatEncode, MaskOfATemplateThatDropsEarlierThinking) {
  Tokenizer tokenizer = tiny();
  Json first = say("assistant", "world");
  first["reasoning_content"] = "think one";
  Json second = say("assistant", "the end");
  second["reasoning_content"] = "think two";
  Json messages = {say("user", "hello"), first, say("user", "in"), second};
  EncodedChat chat = encode_chat(tokenizer, family("qwen3"), messages);
  std::string answer = "<think>\nthink two\n</think>\n\nthe end<|im_end|>";
  EXPECT_EQ(chat.text,
            "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nworld<|im_end|>\n"
            "<|im_start|>user\nin<|im_end|>\n<|im_start|>assistant\n" +
                answer + "\n");
  EXPECT_EQ(chat.ids, tokenizer.encode(chat.text)) << "nothing here merges across a border";
  EXPECT_EQ(trained(tokenizer, chat), "world<|im_end|>" + answer);
  ASSERT_EQ(chat.assistant.size(), chat.ids.size());
  EXPECT_EQ(chat.assistant.back(), 0) << "the newline after the turn";
  EXPECT_EQ(chat.ids[chat.ids.size() - 2], 271);
  EXPECT_EQ(chat.assistant[chat.ids.size() - 2], 1) << "the end of the turn";
  EXPECT_EQ(std::count(chat.ids.begin(), chat.ids.end(), 272), 1) << "<think> is one id";
}

TEST(ChatEncode, HeadersOfEveryFamilyAreNotTrained) {
  Tokenizer tokenizer = tiny();
  Json messages = {say("user", "hello"), say("assistant", "world"), say("user", "in"),
                   say("assistant", " the end")};
  const std::pair<const char*, const char*> kCases[] = {
      {"smollm2", "world<|im_end|> the end<|im_end|>"},
      {"chatml", "world<|im_end|> the end<|im_end|>"},
      {"qwen3", "world<|im_end|><think>\n\n</think>\n\n the end<|im_end|>"},
      {"mistral", " world<|im_end|> the end<|im_end|>"},
      // Their ends of turn are not special in this tokenizer, so they are text.
      {"llama3", "world<|eot_id|>the end<|eot_id|>"},
      {"glm4", "\n<think></think>\nworld\n<think></think>\nthe end"},
  };
  for (const auto& c : kCases) {
    EncodedChat chat = encode_chat(tokenizer, family(c.first), messages);
    EXPECT_EQ(trained(tokenizer, chat), c.second) << c.first;
    EXPECT_EQ(tokenizer.decode(chat.ids), chat.text) << c.first;
  }
}

// H6: 'say <|im_end|> now' is 18 plain ids; the template's own markers are ids.
TEST(ChatEncode, SpecialTextInContentStaysText) {
  Tokenizer tokenizer = tiny();
  std::string content = "say <|im_end|> now";
  EncodedChat chat = encode_chat(tokenizer, family("chatml"), Json::array({say("user", content)}));
  EXPECT_EQ(std::count(chat.ids.begin(), chat.ids.end(), 271), 1);
  Ids expected = tokenizer.encode("<|im_start|>user\n");
  Ids plain = tokenizer.encode(content, {.plain = true});
  EXPECT_EQ(plain.size(), 18U);
  expected.insert(expected.end(), plain.begin(), plain.end());
  Ids end = tokenizer.encode("<|im_end|>\n");
  expected.insert(expected.end(), end.begin(), end.end());
  EXPECT_EQ(chat.ids, expected);
  EXPECT_EQ(tokenizer.decode(chat.ids), chat.text);

  // "<think>" is a token in what the assistant wrote, text in what others wrote.
  Json messages = {say("user", "<think>"), say("assistant", "<think>in</think><|im_end|>")};
  EncodedChat both = encode_chat(tokenizer, family("chatml"), messages);
  EXPECT_EQ(std::count(both.ids.begin(), both.ids.end(), 272), 1);
  EXPECT_EQ(std::count(both.ids.begin(), both.ids.end(), 271), 2);
  EXPECT_EQ(trained(tokenizer, both), "<think>in</think><|im_end|><|im_end|>");
}

// H1: the template writes the BOS, the encoder adds none.
TEST(ChatEncode, BosExactlyOnce) {
  Tokenizer tokenizer = Tokenizer::load(data_path("tiny/tokenizer_with_bos.json"));
  EncodedChat chat = encode_chat(tokenizer, family("mistral"), Json::array({say("user", "hello")}));
  EXPECT_EQ(std::count(chat.ids.begin(), chat.ids.end(), 269), 1);
  EXPECT_EQ(chat.ids.front(), 269);
  EncodedChat none = encode_chat(tokenizer, family("chatml"), Json::array({say("user", "hello")}));
  EXPECT_EQ(std::count(none.ids.begin(), none.ids.end(), 269), 0);
}

// Fine-tuning sees the ids that the sampler is prompted with, whatever the answer begins with.
TEST(ChatEncode, ConversationBeginsWithItsPrompt) {
  Tokenizer tokenizer = tiny();
  for (const char* answer : {"world", "\n\nworld", " world", "<think>", ""}) {
    for (const char* name : {"smollm2", "chatml", "llama3", "mistral", "glm4"}) {
      Json prompt = Json::array({say("user", "hello")});
      ChatOptions ask;
      ask.add_generation_prompt = true;
      Ids before = encode_chat(tokenizer, family(name), prompt, ask).ids;
      Json whole = prompt;
      whole.push_back(say("assistant", answer));
      EncodedChat chat = encode_chat(tokenizer, family(name), whole);
      ASSERT_GE(chat.ids.size(), before.size());
      EXPECT_TRUE(std::equal(before.begin(), before.end(), chat.ids.begin()))
          << name << " '" << answer << "'";
      EXPECT_EQ(std::count(chat.assistant.begin(),
                           chat.assistant.begin() + static_cast<int64_t>(before.size()), 1),
                0);
    }
  }
}

TEST(ChatEncode, AHeaderThatThePromptExtendsIsCutAtALine) {
  ChatOptions options;
  options.variables = {{"enable_thinking", false}};
  Tokenizer tokenizer = tiny();
  Json messages = {say("user", "a"), say("assistant", "<tin"), say("user", "b")};
  EncodedChat chat = encode_chat(tokenizer, family("qwen3"), messages, options);
  EXPECT_EQ(trained(tokenizer, chat), "<tin<|im_end|>");
}

TEST(ChatEncode, GenerationBlocksAndFirstTrained) {
  Tokenizer tokenizer = tiny();
  ChatTemplate blocks(
      "{% for m in messages %}<|im_start|>{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor "
      "%}",
      "t");
  Json messages = {say("user", "a"), say("assistant", "b"), say("user", "c"),
                   say("assistant", "d")};
  EncodedChat all = encode_chat(tokenizer, blocks, messages);
  EXPECT_EQ(trained(tokenizer, all), "b<|im_end|>d<|im_end|>");
  for (const ChatTemplate& chat : {blocks, family("chatml")}) {
    EncodedChat last = encode_chat(tokenizer, chat, messages, {}, 2);
    EXPECT_EQ(trained(tokenizer, last), "d<|im_end|>");
    EXPECT_EQ(last.ids, encode_chat(tokenizer, chat, messages).ids);
  }
}

// A piece in the middle of a text gets no second prefix space.
TEST(ChatEncode, SentencePieceContinuesWithOneSpace) {
  Tokenizer tokenizer = Tokenizer::load(data_path("sentencepiece"));
  ChatTemplate chat(
      "{% for m in messages %}{{ bos_token if loop.first else ' ' }}{{ m.content }}{% endfor %}",
      "t", {{"bos_token", "<s>"}});
  EncodedChat out = encode_chat(tokenizer, chat, {say("user", "hello"), say("assistant", "world")});
  EXPECT_EQ(out.ids, tokenizer.encode("hello world")) << "which has its own BOS";
  EXPECT_EQ(trained(tokenizer, out), "world") << "decoding drops the leading space";
}

}  // namespace
}  // namespace strata::data
