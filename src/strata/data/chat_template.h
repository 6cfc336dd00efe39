// Chat templates: a list of messages → the text that the model was trained on.
//
// The template is the one in the model's directory, run by an interpreter of the part of Jinja
// that chat templates use, with the settings and functions that HF gives them. What it cannot run
// is an error that names the construct and its line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/json.h"
#include "strata/data/marked_text.h"

namespace strata::data {

struct ChatOptions {
  // Appends what precedes the assistant's answer.
  bool add_generation_prompt = false;
  // Definitions of tools, a list, or null.
  Json tools = nullptr;
  // Further variables of the template, such as {"enable_thinking": false}.
  Json variables = Json::object();
  // Which of several named templates; empty: "tool_use" with tools if there is one, else
  // "default".
  std::string template_name;
  // What strftime_now formats, in seconds since 1970; the clock when absent.
  std::optional<int64_t> now;
};

// A stretch of rendered text, in bytes.
struct ChatStretch {
  size_t begin = 0;
  size_t end = 0;
};

// What was written while the template visited one message.
struct ChatTurn {
  size_t message = 0;
  ChatStretch stretch;
};

struct RenderedChat {
  // Marks say which message each part came from; text without a mark is the template's.
  MarkedText text;
  std::vector<ChatTurn> turns;         // in order; a message may have several or none
  std::vector<ChatStretch> generated;  // {% generation %} blocks, if the template has them
};

// Immutable and cheap to copy; thread-safe.
class ChatTemplate {
 public:
  // Reads `directory`/chat_template.jinja, else `chat_template` of tokenizer_config.json (a text
  // or a list of named ones), and the special tokens' texts. Throws not_found when there is none,
  // otherwise as the constructor and read_json.
  static ChatTemplate load(const std::filesystem::path& directory);

  // One template; `tokens` are variables such as {"bos_token", "<s>"}. Throws invalid_argument (id
  // "chat_template.syntax") or unimplemented (id "chat_template.unsupported") naming `where`:line.
  ChatTemplate(std::string_view source, const std::string& where,
               std::vector<std::pair<std::string, std::string>> tokens = {});

  // Throws invalid_argument naming the message for a list that is not one of objects with a text
  // "role"; otherwise as jinja::interpret.
  RenderedChat render(const Json& messages, const ChatOptions& options = {}) const;

 private:
  struct Program;
  ChatTemplate() = default;
  void add(const std::string& name, std::string_view source, const std::string& where);
  const Program& pick(const ChatOptions& options) const;

  std::vector<std::shared_ptr<const Program>> programs_;
  std::vector<std::pair<std::string, std::string>> tokens_;
};

}  // namespace strata::data
