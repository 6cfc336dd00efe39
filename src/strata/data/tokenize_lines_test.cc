#include "strata/data/tokenize_lines.h"

#include <gtest/gtest.h>

#include <sstream>

#include "strata/data/test_data.h"

namespace strata::data {
namespace {

std::string run(const std::string& text, const TokenizeOptions& options = {}) {
  std::istringstream in(text);
  std::ostringstream out;
  tokenize_lines(in, out, Tokenizer::load(data_path("tiny")), options);
  return out.str();
}

TEST(TokenizeLines, BothDirections) {
  EXPECT_EQ(run("{\"text\": \"hello world\"}\n\n{\"text\":\"<|im_end|>\"}\n"),
            "{\"ids\":[259,264]}\n{\"ids\":[271]}\n");
  EXPECT_EQ(run("{\"ids\":[259,264,271]}", {.decode = true}),
            "{\"text\":\"hello world<|im_end|>\"}\n");
  std::string plain = run("{\"text\":\"<|im_end|>\"}", {.plain = true});
  EXPECT_EQ(plain.find("271"), std::string::npos);
  EXPECT_NE(plain.find(",124,"), std::string::npos) << plain;
}

TEST(TokenizeLines, ErrorsNameFileAndLine) {
  TokenizeOptions file;
  file.where = "in.jsonl";
  Error syntax = error_of([&] { run("{\"text\":\"a\"}\n{\"text\":", file); });
  EXPECT_EQ(syntax.id(), "json.parse");
  EXPECT_NE(std::string(syntax.what()).find("in.jsonl:2"), std::string::npos) << syntax.what();
  EXPECT_EQ(error_of([&] { run("[1]", file); }).id(), "json.not_object");
  EXPECT_EQ(error_of([&] { run("{\"ids\":[1]}", file); }).id(), "json.missing_key");
  file.decode = true;
  for (const char* line : {"{\"text\":\"a\"}", "{\"ids\":3}", "[]"}) {
    EXPECT_EQ(error_of([&] { run(line, file); }).id(), "tokenize.ids") << line;
  }
  for (const char* line : {"{\"ids\":[1,274]}", "{\"ids\":[1,-1]}", "{\"ids\":[1,\"a\"]}",
                           "{\"ids\":[1,99999999999]}", "{\"ids\":[1,1.5]}"}) {
    Error e = error_of([&] { run(line, file); });
    EXPECT_EQ(e.id(), "tokenize.id") << line;
    EXPECT_NE(std::string(e.what()).find("in.jsonl:1, ids[1]"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace strata::data
