#include <gtest/gtest.h>

#include "strata/data/batching.h"
#include "strata/data/dataset.h"
#include "strata/data/test_data.h"

namespace strata::data {
namespace {

Tokenizer tiny() { return Tokenizer::load(data_path("tiny")); }

ChatTemplate chatml() { return ChatTemplate(read_file(data_path("chat/chatml.jinja")), "chatml"); }

Error line_error(const std::string& line) {
  TemporaryFile file("bad.jsonl", "{\"text\": \"fine\"}\n\n" + line + "\n");
  Dataset data(file.path(), tiny(), chatml());
  return error_of([&] { data.example(1); });
}

TEST(DatasetError, BadLinesNameFileAndLine) {
  struct Case {
    const char* line;
    const char* id;
    const char* text;
  };
  const Case kCases[] = {
      {"{\"text\": ", "json.parse", "valid JSON"},
      {"[1]", "dataset.line", "a JSON object"},
      {"{}", "dataset.line", "an empty object"},
      {"{\"txt\": \"a\", \"id\": 1}", "dataset.line", "the keys txt, id"},
      {"{\"text\": 5}", "json.type", "'text'"},
      {"{\"prompt\": \"a\"}", "dataset.line", "'completion'"},
      {"{\"prompt\": \"a\", \"completion\": []}", "dataset.line", "both as text"},
      {"{\"prompt\": 3, \"completion\": \"a\"}", "dataset.line", "'prompt' as text"},
      {"{\"messages\": {}}", "chat.messages", "a list of messages"},
      {"{\"messages\": [{\"content\": \"a\"}]}", "chat.messages", "messages[0]"},
      {"{\"messages\": [{\"role\": \"user\"}]}", "chat_template.undefined", "'content'"},
  };
  for (const Case& c : kCases) {
    Error e = line_error(c.line);
    EXPECT_EQ(e.id(), c.id) << c.line << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(c.text), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("bad.jsonl:3"), std::string::npos) << e.what();
  }
}

TEST(DatasetError, WrongFilesAndSettings) {
  TemporaryFile empty("empty.jsonl", "\n  \n");
  Error none = error_of([&] { Dataset(empty.path(), tiny(), chatml()); });
  EXPECT_EQ(none.id(), "dataset.empty");
  EXPECT_NE(std::string(none.what()).find("empty.jsonl"), std::string::npos);
  Error missing = error_of([&] { Dataset("/nowhere/x.jsonl", tiny(), chatml()); });
  EXPECT_EQ(missing.code(), Code::not_found);
  TemporaryFile chat("chat.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}");
  DatasetOptions options;
  options.bad_lines = BadLines::skip;
  Dataset data(chat.path(), tiny(), std::nullopt, options);
  Error absent = error_of([&] { data.example(0); });
  EXPECT_EQ(absent.id(), "dataset.no_template") << "not a fault of the line, so not skipped";
  options.max_tokens = 1;
  Error small = error_of([&] { Dataset(chat.path(), tiny(), std::nullopt, options); });
  EXPECT_EQ(small.id(), "dataset.max_tokens");
  EXPECT_EQ(error_of([] { parse_bad_lines("ignore"); }).id(), "dataset.bad_lines");
  EXPECT_EQ(error_of([] { parse_truncation("cut"); }).id(), "dataset.truncation");
  EXPECT_EQ(parse_bad_lines("skip"), BadLines::skip);
  EXPECT_EQ(parse_truncation("drop"), Truncation::drop);
}

TEST(DatasetError, NothingTrainableInAnEpoch) {
  TemporaryFile file("users.jsonl",
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n");
  Dataset data(file.path(), tiny(), chatml());
  BatchStream stream(&data, {}, 1024);
  Error e = error_of([&] { stream.next(); });
  EXPECT_EQ(e.id(), "dataset.nothing");
  EXPECT_EQ(e.code(), Code::failed_precondition);
  EXPECT_EQ(data.counts().untrainable, 2U);
}

TEST(DatasetError, WrongBatches) {
  TemporaryFile file("text.jsonl", "{\"text\": \"hello world\"}\n");
  Dataset data(file.path(), tiny(), chatml());
  BatchOptions options;
  Error longer = error_of([&] { BatchStream(&data, options, options.length + 1); });
  EXPECT_EQ(longer.id(), "batch.shape");
  options.rows = 0;
  EXPECT_EQ(error_of([&] { BatchStream(&data, options, 8); }).id(), "batch.shape");
  options.rows = 1;
  BatchStream stream(&data, options, 8);
  Error state = error_of([&] { stream.restore({0, 2}); });
  EXPECT_EQ(state.id(), "batch.state");
  EXPECT_EQ(state.code(), Code::out_of_range);
  Example bad{{1, 2, 3}, {0, 1}};
  EXPECT_EQ(error_of([&] { assemble({{bad}}, 8, 0); }).id(), "batch.row");
  Example fine{{1, 2, 3}, {0, 1, 1}};
  EXPECT_EQ(error_of([&] { assemble({{fine, fine}}, 5, 0); }).id(), "batch.row");
}

}  // namespace
}  // namespace strata::data
