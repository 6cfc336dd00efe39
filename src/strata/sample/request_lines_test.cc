#include "strata/sample/request_lines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "strata/sample/directory_for_test.h"
#include "strata/sample/tiny_for_test.h"
#include "strata/testing/errors.h"

namespace strata::sample {
namespace {

using testing::expect_error;
using Ids = std::vector<int32_t>;

Prompts prompts(const std::string& tokenizer = "tokenizer.json") {
  return {data::Tokenizer::load(test_data("data/tiny/" + tokenizer)),
          data::ChatTemplate(read_file(test_data("data/chat/chatml.jinja")), "chatml")};
}

RequestLine parse(std::string_view line, const Prompts& p) {
  return parse_request(line, "in.jsonl:4", 4, p, {});
}

TEST(RequestLines, ThreeKindsOfPrompts) {
  Prompts p = prompts();
  RequestLine text = parse(R"({"id": "a", "prompt": "hello world", "top_k": 3})", p);
  EXPECT_EQ(text.request.id, "a");
  EXPECT_EQ(text.request.tokens, (Ids{259, 264}));
  EXPECT_EQ(text.request.settings.top_k, 3);
  RequestLine ids = parse(R"({"tokens": [256, 258, 264], "temperature": 0})", p);
  EXPECT_EQ(ids.request.id, "4");
  EXPECT_EQ(ids.id, Json(4));
  // Case H2: ids stay as they are; what was sampled is never decoded and encoded again.
  EXPECT_EQ(ids.request.tokens, (Ids{256, 258, 264}));
  EXPECT_EQ(ids.request.settings.temperature, 0);
  RequestLine chat = parse(R"({"id": 7, "messages": [{"role": "user", "content": "in"}]})", p);
  EXPECT_EQ(chat.request.id, "7");
  EXPECT_EQ(p.tokenizer()->decode(chat.request.tokens),
            "<|im_start|>user\nin<|im_end|>\n<|im_start|>assistant\n");
}

// Case H1: a text gets the BOS that the tokenizer puts in front, a chat the one of its template.
TEST(RequestLines, ExactlyOneBos) {
  Prompts p = prompts("tokenizer_with_bos.json");
  EXPECT_EQ(p.of_text("hello world"), (Ids{269, 259, 264}));
  Prompts own(
      p.tokenizer(),
      data::ChatTemplate("<|endoftext|>{% for m in messages %}{{ m.content }}{% endfor %}", "own"));
  Json say = {{{"role", "user"}, {"content", "hello world"}}};
  EXPECT_EQ(own.of_chat(say), (Ids{269, 259, 264}));
}

// Case H6: text in a message never becomes a control token.
TEST(RequestLines, SpecialTextInMessagesStaysText) {
  Prompts p = prompts();
  Json say = {{{"role", "user"}, {"content", "say <|im_end|> now"}}};
  Ids ids = p.of_chat(say);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 271), 1);
  Ids plain = p.tokenizer()->encode("say <|im_end|> now", {.plain = true});
  EXPECT_EQ(plain.size(), 18u);
  EXPECT_NE(std::search(ids.begin(), ids.end(), plain.begin(), plain.end()), ids.end());
}

TEST(RequestLines, BadLinesNameFileAndLine) {
  Prompts p = prompts();
  auto refuse = [&](Code code, const char* id, const char* part, const char* line) {
    expect_error(code, id, part, [&] { parse(line, p); });
    try {
      parse(line, p);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("in.jsonl:4"), std::string::npos) << e.what();
    }
  };
  refuse(Code::data_loss, "json.parse", "valid JSON", "{\"id\": ");
  refuse(Code::invalid_argument, "sample.request_type", "a JSON object", "[1]");
  refuse(Code::invalid_argument, "sample.request_keys", "got 0 of them", R"({"id": "a"})");
  refuse(Code::invalid_argument, "sample.request_keys", "got 2 of them",
         R"({"prompt": "a", "tokens": [1]})");
  refuse(Code::invalid_argument, "sample.request_key", "The nearest is 'temperature'",
         R"({"prompt": "a", "temprature": 1})");
  refuse(Code::invalid_argument, "sample.request_type", "id as a text or an integer",
         R"({"prompt": "a", "id": 1.5})");
  refuse(Code::invalid_argument, "sample.request_type", "prompt as a text", R"({"prompt": 3})");
  refuse(Code::invalid_argument, "sample.request_type", "tokens as a list of ids",
         R"({"tokens": [1, -1]})");
  refuse(Code::invalid_argument, "sample.request_type", "tokens as a list of ids",
         R"({"tokens": "abc"})");
  refuse(Code::invalid_argument, "sample.setting_type", "seed as an integer",
         R"({"prompt": "a", "seed": "x"})");
  refuse(Code::out_of_range, "sample.setting", "top_p", R"({"prompt": "a", "top_p": 3})");
  refuse(Code::invalid_argument, "chat.messages", "messages[0]", R"({"messages": [{"x": 1}]})");
  expect_error(Code::failed_precondition, "sample.no_tokenizer", "Give the prompt as token ids",
               [] { parse(R"({"prompt": "a"})", Prompts()); });
  expect_error(Code::failed_precondition, "sample.no_chat_template", "none", [&] {
    parse(R"({"messages": [{"role": "user", "content": "a"}]})",
          Prompts(p.tokenizer(), std::nullopt));
  });
}

TEST(RequestLines, FilesOfRequests) {
  Directory d;
  auto file = d.write_text("in.jsonl", std::string_view("{\"prompt\": \"hello\"}\n\n"
                                                        "{\"id\": \"b\", \"prompt\": \"in\"}\r\n"));
  std::vector<RequestLine> lines = read_requests(file, prompts(), {});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].request.id, "1");
  EXPECT_EQ(lines[1].request.id, "b");
  d.write_text("in.jsonl", std::string_view("{\"id\": 3, \"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n"
                                            "{\"prompt\": \"c\"}\n"));
  expect_error(Code::already_exists, "sample.request_twice", "'3', which line 1 has",
               [&] { read_requests(file, prompts(), {}); });
  d.write_text("in.jsonl", std::string_view("\n \n"));
  expect_error(Code::not_found, "sample.no_requests", "in.jsonl",
               [&] { read_requests(file, prompts(), {}); });
  expect_error(Code::not_found, "file.open", "nowhere",
               [&] { read_requests(d.path() / "nowhere", prompts(), {}); });
}

TEST(RequestLines, ResultsAreOneLineEach) {
  Result r;
  r.id = "7";
  r.sample = 1;
  r.tokens = {5, 6};
  r.logprobs = {-0.5f, -1.25f};
  r.text = "a\nb";
  r.finish_reason = FinishReason::stop;
  EXPECT_EQ(result_line(r, Json(7), false),
            R"({"id":7,"tokens":[5,6],"logprobs":[-0.5,-1.25],"text":"a\nb",)"
            R"("finish_reason":"stop"})");
  r.error = "oh";
  r.finish_reason = FinishReason::error;
  Json line = parse_json(result_line(r, "x", true), "line");
  EXPECT_EQ(line["sample"], 1);
  EXPECT_EQ(line["error"], "oh");
  EXPECT_EQ(line["finish_reason"], "error");
  EXPECT_EQ(name_of(FinishReason::length), "length");
  EXPECT_EQ(name_of(FinishReason::cancelled), "cancelled");
}

TEST(Prompts, WhatADirectoryHas) {
  Directory d;
  EXPECT_FALSE(Prompts::load(d.path()).tokenizer().has_value());
  std::filesystem::copy_file(test_data("data/tiny/tokenizer.json"), d.path() / "tokenizer.json");
  Prompts p = Prompts::load(d.path());
  EXPECT_EQ(p.of_text("hello"), Ids{259});
  d.write_text("tokenizer.json", std::string_view("{"));
  EXPECT_THROW(Prompts::load(d.path()), Error);
}

}  // namespace
}  // namespace strata::sample
