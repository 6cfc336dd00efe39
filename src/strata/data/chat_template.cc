#include "strata/data/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"
#include "strata/data/jinja_interpreter.h"
#include "strata/data/utf8.h"

namespace strata::data {

namespace fs = std::filesystem;

struct ChatTemplate::Program {
  std::string name;
  std::string where;
  jinja::Block block;
};

namespace {

// Roles are part of the template's own markers when they are plain words.
int32_t role_origin(const std::string& role) {
  bool plain = std::all_of(role.begin(), role.end(), [](char c) {
    return std::isalnum(static_cast<uint8_t>(c)) != 0 || c == '_' || c == '-';
  });
  return plain ? kFromTemplate : kFromOutside;
}

jinja::Value messages_value(const Json& messages) {
  require(messages.is_array(), {.id = "chat.messages",
                                .where = "messages",
                                .expected = "a list of messages",
                                .got = messages.type_name()});
  jinja::Values values;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    auto role = message.is_object() ? message.find("role") : message.end();
    bool fits = message.is_object() && role != message.end() && role->is_string();
    if (!fits) {
      fail({.id = "chat.messages",
            .where = fmt::format("messages[{}]", i),
            .expected = "an object with a text 'role'",
            .got = message.is_object() ? "one without" : message.type_name()});
    }
    jinja::Map map = jinja::from_json(message, static_cast<int32_t>(i)).map();
    map.message = static_cast<int32_t>(i);
    for (auto& entry : map.items) {
      if (entry.first != "role") continue;
      std::string text = to_valid_utf8(role->get<std::string>());
      entry.second = jinja::Value::of(MarkedText(text, role_origin(text)));
    }
    values.push_back(jinja::Value::map(std::move(map)));
  }
  return jinja::Value::list(std::move(values));
}

// A special token of tokenizer_config.json: a text or {"content": text}.
std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const std::string& where,
                           std::vector<std::pair<std::string, std::string>> tokens)
    : tokens_(std::move(tokens)) {
  add("default", source, where);
}

void ChatTemplate::add(const std::string& name, std::string_view source, const std::string& where) {
  auto program = std::make_shared<Program>();
  program->name = name;
  program->where = where;
  program->block = jinja::parse(source, where);
  programs_.push_back(std::move(program));
}

ChatTemplate ChatTemplate::load(const fs::path& directory) {
  ChatTemplate out;
  fs::path config_path = directory / "tokenizer_config.json";
  std::error_code ec;
  Json config = fs::exists(config_path, ec) ? read_json(config_path) : Json::object();
  fs::path map_path = directory / "special_tokens_map.json";
  Json map = fs::exists(map_path, ec) ? read_json(map_path) : Json::object();
  for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token",
                           "cls_token", "mask_token"}) {
    for (const Json* source : {&config, &map}) {
      if (!source->is_object() || !source->contains(name)) continue;
      std::optional<std::string> text = token_text((*source)[name]);
      if (!text.has_value()) continue;
      out.tokens_.emplace_back(name, *text);
      break;
    }
  }
  fs::path file = directory / "chat_template.jinja";
  if (fs::exists(file, ec)) {
    out.add("default", read_file(file), file.string());
    return out;
  }
  std::string where = config_path.string() + ", chat_template";
  Json source = config.is_object() && config.contains("chat_template") ? config["chat_template"]
                                                                       : Json(nullptr);
  if (source.is_string()) out.add("default", source.get<std::string>(), where);
  for (const Json& entry : source.is_array() ? source : Json::array()) {
    std::string name = get_string(entry, "name", where);
    out.add(name, get_string(entry, "template", where), where + " '" + name + "'");
  }
  require(!out.programs_.empty(),
          {.id = "chat_template.not_found",
           .where = directory.string(),
           .expected = "a chat_template.jinja, or a chat_template in tokenizer_config.json",
           .got = "neither",
           .cure = "Add one, or give plain text instead of messages",
           .code = Code::not_found});
  return out;
}

const ChatTemplate::Program& ChatTemplate::pick(const ChatOptions& options) const {
  std::vector<std::string> names;
  for (const auto& program : programs_) names.push_back(program->name);
  auto find = [&](const std::string& name) -> const Program* {
    auto it = std::find(names.begin(), names.end(), name);
    return it == names.end() ? nullptr : programs_[static_cast<size_t>(it - names.begin())].get();
  };
  const Program* found = nullptr;
  if (!options.template_name.empty()) {
    found = find(options.template_name);
  } else {
    bool tools = options.tools.is_array() && !options.tools.empty();
    if (tools) found = find("tool_use");
    if (found == nullptr) found = find("default");
    if (found == nullptr && programs_.size() == 1) found = programs_[0].get();
  }
  if (found == nullptr) {
    fail({.id = "chat_template.name",
          .where = "chat template",
          .expected = "one of " + join(names, ", "),
          .got = options.template_name.empty() ? "no name" : "'" + options.template_name + "'",
          .code = Code::not_found});
  }
  return *found;
}

RenderedChat ChatTemplate::render(const Json& messages, const ChatOptions& options) const {
  const Program& program = pick(options);
  using jinja::Value;
  jinja::Variables variables = {{"messages", messages_value(messages)},
                                {"add_generation_prompt", Value::of(options.add_generation_prompt)},
                                {"tools", jinja::from_json(options.tools, kFromOutside)},
                                {"documents", Value::none()}};
  for (const auto& token : tokens_) variables.emplace_back(token.first, Value::of(token.second));
  require(options.variables.is_object() || options.variables.is_null(),
          {.id = "chat.variables",
           .where = "variables of the chat template",
           .expected = "an object",
           .got = options.variables.type_name()});
  for (auto it = options.variables.begin(); it != options.variables.end(); ++it) {
    variables.emplace_back(it.key(), jinja::from_json(it.value(), kFromOutside));
  }
  int64_t now = options.now.value_or(static_cast<int64_t>(std::time(nullptr)));
  jinja::Output output = jinja::interpret(program.block, std::move(variables), now, program.where);
  RenderedChat out;
  for (const jinja::TurnOutput& t : output.turns) {
    out.turns.push_back({static_cast<size_t>(t.message), {t.stretch.begin, t.stretch.end}});
  }
  for (const jinja::Stretch& s : output.generated) out.generated.push_back({s.begin, s.end});
  out.text = std::move(output.text);
  return out;
}

}  // namespace strata::data
