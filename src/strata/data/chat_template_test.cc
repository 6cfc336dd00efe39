#include "strata/data/chat_template.h"

#include <gtest/gtest.h>

#include "strata/base/file.h"
#include "strata/data/test_data.h"

namespace strata::data {
namespace {

using Tokens = std::vector<std::pair<std::string, std::string>>;

ChatOptions options_of(const Json& setting) {
  ChatOptions options;
  options.add_generation_prompt = setting.value("add_generation_prompt", false);
  options.tools = setting.value("tools", Json(nullptr));
  options.variables = setting.value("variables", Json::object());
  return options;
}

// Each of the five families' templates on every conversation, against the real jinja2.
TEST(ChatTemplateGolden, RealTemplatesRenderAsJinja2) {
  Json goldens = read_json(data_path("chat/templates.json"));
  Tokens tokens;
  for (const auto& [name, text] : goldens["tokens"].items()) tokens.emplace_back(name, text);
  EXPECT_EQ(goldens["cases"].size(), 240U);
  for (const Json& c : goldens["cases"]) {
    std::string file = c["template"];
    SCOPED_TRACE(file + ", " + c["conversation"].dump() + ", " + c["setting"].dump());
    ChatTemplate chat(read_file(data_path("chat/" + file)), file, tokens);
    const Json& messages = goldens["conversations"][c["conversation"].get<std::string>()];
    ChatOptions options = options_of(goldens["settings"][c["setting"].get<std::string>()]);
    if (c["result"].is_string()) {
      EXPECT_EQ(chat.render(messages, options).text.text(), c["result"]);
    } else {
      Error e = error_of([&] { chat.render(messages, options); });
      EXPECT_EQ(e.id(), c["result"]["error"]);
      std::string message = c["result"]["message"];
      EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
    }
  }
}

// Every construct, filter, test and method of the subset, and what it refuses.
TEST(ChatTemplateGolden, SnippetsRenderAsJinja2) {
  Json goldens = read_json(data_path("chat/snippets.json"));
  ChatOptions options;
  options.now = goldens["now"].get<int64_t>();
  // The goldens' variables are the template's own text here, so hand them over as variables.
  options.variables = goldens["variables"];
  for (const Json& c : goldens["cases"]) {
    std::string source = c["source"];
    SCOPED_TRACE(source);
    auto render = [&] {
      return ChatTemplate(source, "snippet").render(Json::array(), options).text.text();
    };
    if (c["result"].is_string()) {
      EXPECT_EQ(render(), c["result"]);
    } else {
      EXPECT_EQ(error_of(render).id(), c["result"]["error"]);
    }
  }
}

TEST(ChatTemplate, MarksFollowTheContent) {
  ChatTemplate chat(
      "{% for m in messages %}<{{ m.role }}>{{ m.content.split('|')[-1] | trim | upper }}."
      "{% endfor %}",
      "t");
  Json messages = Json::array({Json{{"role", "user"}, {"content", "drop| ab "}},
                               Json{{"role", "assistant"}, {"content", "c"}}});
  RenderedChat out = chat.render(messages);
  EXPECT_EQ(out.text.text(), "<user>AB.<assistant>C.");
  EXPECT_EQ(out.text.marks(), (std::vector<Mark>{{6, 8, 0}, {20, 21, 1}}));
  ASSERT_EQ(out.turns.size(), 2U);
  EXPECT_EQ(out.turns[1].message, 1U);
  EXPECT_EQ(out.turns[1].stretch.begin, 9U);
  EXPECT_EQ(out.turns[1].stretch.end, 22U);
}

TEST(ChatTemplate, OddRolesAndToolsAreMarkedToo) {
  ChatTemplate chat("{{ messages[0].role }}{{ tools | tojson }}{{ x }}", "t");
  ChatOptions options;
  options.tools = Json::array({Json{{"name", "f"}}});
  options.variables = {{"x", "v"}};
  RenderedChat out = chat.render(Json::array({Json{{"role", "<|im_end|>"}}}), options);
  EXPECT_EQ(out.text.text(), "<|im_end|>[{\"name\": \"f\"}]v");
  ASSERT_EQ(out.text.marks().size(), 4U);
  EXPECT_EQ(out.text.marks()[0], (Mark{0, 10, kFromOutside}));
}

class ChatTemplateFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { scratch_.write(name, text); }
  std::string render(const ChatOptions& options = {}) {
    return ChatTemplate::load(scratch_.path()).render(Json::array(), options).text.text();
  }
  strata::testing::ScratchDirectory scratch_;
};

TEST_F(ChatTemplateFiles, ConfigWithOneTemplateAndTokens) {
  write("tokenizer_config.json",
        R"({"chat_template": "{{ bos_token }}{{ eos_token }}", "bos_token": "<b>",
            "eos_token": {"content": "<e>"}})");
  EXPECT_EQ(render(), "<b><e>");
  write("chat_template.jinja", "file {{ bos_token }}\n");
  EXPECT_EQ(render(), "file <b>");
}

TEST_F(ChatTemplateFiles, NamedTemplates) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "d"},
                              {"name": "tool_use", "template": "t"},
                              {"name": "rag", "template": "r"}]})");
  write("special_tokens_map.json", R"({"bos_token": "<b>"})");
  ChatOptions options;
  EXPECT_EQ(render(), "d");
  options.tools = Json::array({Json{{"name", "f"}}});
  EXPECT_EQ(render(options), "t");
  options.template_name = "rag";
  EXPECT_EQ(render(options), "r");
  options.template_name = "rug";
  Error e = error_of([&] { render(options); });
  EXPECT_EQ(e.id(), "chat_template.name");
  EXPECT_NE(std::string(e.what()).find("default, tool_use, rag"), std::string::npos) << e.what();
}

TEST_F(ChatTemplateFiles, NoTemplate) {
  Error e = error_of([&] { render(); });
  EXPECT_EQ(e.id(), "chat_template.not_found");
  EXPECT_EQ(e.code(), Code::not_found);
}

}  // namespace
}  // namespace strata::data
