#include <gtest/gtest.h>

#include "strata/data/chat_template.h"
#include "strata/data/test_data.h"

namespace strata::data {
namespace {

Error render_error(const std::string& source, const Json& messages = Json::array(),
                   const ChatOptions& options = {}) {
  return error_of(
      [&] { ChatTemplate(source, "model/chat_template.jinja").render(messages, options); });
}

TEST(ChatTemplateError, ConstructsOutsideTheSubsetAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{% include 'x' %}", "{% include %}"},
      {"{% extends 'x' %}", "{% extends %}"},
      {"{% call f() %}{% endcall %}", "{% call %}"},
      {"{% filter upper %}x{% endfilter %}", "{% filter %}"},
      {"{% for x in [1] recursive %}{% endfor %}", "recursive"},
      {"{{ f(*x) }}", "unpacked arguments"},
      {"{{ 1 | round }}", "the filter 'round'"},
      {"{{ 1 is prime }}", "the test 'prime'"},
      {"{{ 'a'.encode() }}", "the string method 'encode'"},
      {"{{ [1].append(2) }}", "the list method 'append'"},
      {"{{ {}.update({}) }}", "the dict method 'update'"},
      {"{{ {1: 2} }}", "a dict key that is no text"},
      {"{% set ns = namespace() %}{% set ns.x = [ns] %}", "namespace inside"},
      {"{% set x | upper %}a{% endset %}", "a filter on {% set %}"},
  };
  for (const auto& c : kCases) {
    Error e = render_error(std::string("\n\n") + c.first);
    EXPECT_EQ(e.id(), "chat_template.unsupported") << c.first << ": " << e.what();
    EXPECT_EQ(e.code(), Code::unimplemented);
    std::string text = e.what();
    EXPECT_NE(text.find(c.second), std::string::npos) << text;
    EXPECT_NE(text.find("model/chat_template.jinja:3"), std::string::npos) << text;
    EXPECT_NE(text.find("\"prompt\", \"completion\""), std::string::npos) << "the cure: " << text;
  }
}

TEST(ChatTemplateError, WhatATemplateRefusesIsItsOwnMessage) {
  Error e = render_error(
      "{% if messages[0].role != 'user' %}\n"
      "{{ raise_exception('Roles must alternate, ' ~ messages[0].role) }}{% endif %}",
      Json::array({Json{{"role", "tool"}, {"content", "x"}}}));
  EXPECT_EQ(e.id(), "chat_template.raised");
  EXPECT_EQ(e.code(), Code::failed_precondition);
  EXPECT_NE(std::string(e.what()).find("Roles must alternate, tool"), std::string::npos)
      << e.what();
  EXPECT_NE(std::string(e.what()).find("chat_template.jinja:2"), std::string::npos) << e.what();
}

TEST(ChatTemplateError, MistakesNameTheirLine) {
  Error undefined =
      render_error("x\n{{ messages[0].content.text }}", Json::array({Json{{"role", "user"}}}));
  EXPECT_EQ(undefined.id(), "chat_template.undefined");
  EXPECT_NE(std::string(undefined.what()).find(":2: "), std::string::npos) << undefined.what();
  EXPECT_NE(std::string(undefined.what()).find("'content', which is undefined"), std::string::npos);
  EXPECT_EQ(render_error("{{ 1 // 0 }}").id(), "chat_template.arithmetic");
  EXPECT_EQ(render_error("{{ 9223372036854775807 + 1 }}").id(), "chat_template.arithmetic");
  EXPECT_EQ(render_error("{{ 2 ** 70 }}").id(), "chat_template.arithmetic");
  EXPECT_EQ(render_error("{{ 99999999999999999999 }}").id(), "chat_template.syntax");
  EXPECT_EQ(render_error("{{ missing | tojson }}").id(), "chat_template.type");
  EXPECT_EQ(render_error("{{ f() }}").id(), "chat_template.undefined");
  EXPECT_EQ(render_error("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}").id(), "chat_template.type");
  EXPECT_EQ(render_error("{% for a, b in [[1]] %}{% endfor %}").id(), "chat_template.type");
  EXPECT_EQ(render_error("{% set x.y = 1 %}").id(), "chat_template.undefined");
  EXPECT_EQ(render_error("{{ 'a'[::0] }}").id(), "chat_template.type");
}

// Nothing that a template says exhausts time, memory or the stack.
TEST(ChatTemplateError, RunawayTemplatesStop) {
  const std::string kSources[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% set n = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(99) %}{% set n.s = n.s + n.s "
      "%}"
      "{% endfor %}",
      "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
      "{% set n = namespace(s=[]) %}{% for i in range(1000) %}{% set n.s = [n.s] %}{% endfor %}",
      "{{ range(1000000000) | list }}",
      "{% for i in range(1000) %}{{ 'x' * 1000000 }}{% endfor %}",
      "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
  };
  for (const std::string& source : kSources) {
    Error e = render_error(source);
    EXPECT_EQ(e.id(), "chat_template.limit") << source << ": " << e.what();
    EXPECT_EQ(e.code(), Code::resource_exhausted);
  }
  EXPECT_EQ(render_error("{{ 'a' * 9999999999 }}").id(), "chat_template.arithmetic");
  for (const std::string& unit : {std::string("("), std::string("["), std::string("not "),
                                  std::string("-"), std::string("{'a':")}) {
    std::string source = "{{ ";
    for (int i = 0; i < 20000; ++i) source += unit;
    EXPECT_EQ(render_error(source + "1 }}").id(), "chat_template.syntax") << unit;
  }
  std::string sum = "{{ 1";
  std::string dots = "{{ a";
  std::string blocks;
  for (int i = 0; i < 20000; ++i) {
    sum += "+1";
    dots += ".a";
    blocks += "{% if 1 %}";
  }
  EXPECT_EQ(render_error(sum + " }}").id(), "chat_template.syntax");
  EXPECT_EQ(render_error(dots + " }}").id(), "chat_template.syntax");
  EXPECT_EQ(render_error(blocks).id(), "chat_template.syntax");
}

TEST(ChatTemplateError, WrongMessagesAndVariables) {
  Error list = render_error("x", Json::object());
  EXPECT_EQ(list.id(), "chat.messages");
  Error role = render_error("x", Json::array({Json{{"role", "user"}}, Json{{"content", "a"}}}));
  EXPECT_EQ(role.id(), "chat.messages");
  EXPECT_NE(std::string(role.what()).find("messages[1]"), std::string::npos) << role.what();
  EXPECT_EQ(render_error("x", Json::array({1})).id(), "chat.messages");
  ChatOptions options;
  options.variables = 3;
  EXPECT_EQ(render_error("x", Json::array(), options).id(), "chat.variables");
  Json deep = "x";
  for (int i = 0; i < 400; ++i) deep = Json::array({deep});
  EXPECT_EQ(render_error("x", Json::array({Json{{"role", "user"}, {"content", deep}}})).id(),
            "chat_template.limit");
}

}  // namespace
}  // namespace strata::data
