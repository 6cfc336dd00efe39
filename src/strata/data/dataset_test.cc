#include "strata/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// A data set of the given lines that keeps its file while it lives.
struct Lines {
  Lines(std::string_view text, const DatasetOptions& options = {}, const char* chat = "qwen3")
      : file("lines.jsonl", text), data(file.path(), tiny(), family(chat), options) {}
  TemporaryFile file;
  Dataset data;
};

// The four messages of the case H4.
constexpr std::string_view kThinking =
    R"({"messages": [{"role": "user", "content": "hello"},
 {"role": "assistant", "content": "world", "reasoning_content": "think one"},
 {"role": "user", "content": "in"},
 {"role": "assistant", "content": "the end", "reasoning_content": "think two"}]})";

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

TEST(Dataset, EveryKindOfLine) {
  DatasetOptions options;
  options.eos_id = 269;
  Lines lines(
      "{\"text\": \"hello world\"}\n"
      "\n"
      "{\"prompt\": \"hello\", \"completion\": \" world\", \"id\": 7}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"in\"}],"
      " \"completion\": [{\"role\": \"assistant\", \"content\": \"hello\"}]}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"in\"},"
      " {\"role\": \"assistant\", \"content\": \"hello\"}]}",
      options, "chatml");
  ASSERT_EQ(lines.data.size(), 4U);
  Example text = *lines.data.example(0);
  EXPECT_EQ(text.ids, (Ids{259, 264, 269}));
  EXPECT_EQ(text.loss_mask, (Mask{1, 1, 1}));
  Example completion = *lines.data.example(1);
  EXPECT_EQ(completion.ids, (Ids{259, 264, 269}));
  EXPECT_EQ(completion.loss_mask, (Mask{0, 1, 1}));
  Example chat = *lines.data.example(2);
  EXPECT_EQ(lines.data.tokenizer().decode(chat.ids),
            "<|im_start|>user\nin<|im_end|>\n<|im_start|>assistant\nhello<|im_end|>\n");
  EXPECT_EQ(std::count(chat.loss_mask.begin(), chat.loss_mask.end(), 1), 2);
  EXPECT_EQ(lines.data.example(3)->ids, chat.ids);
  EXPECT_EQ(lines.data.counts().examples, 4U);
  EXPECT_NE(lines.data.lines().where(1).find(":3"), std::string::npos) << "blank lines count";
}

TEST(Dataset, PromptsOfALine) {
  Lines lines(
      "{\"prompt\": \"hello<|im_end|>\"}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"in\"}]}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"in\"}], \"answer\": \"3\"}\n",
      {}, "chatml");
  EXPECT_EQ(lines.data.prompt(0), (Ids{259, 271}));
  std::string rendered = "<|im_start|>user\nin<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(lines.data.tokenizer().decode(lines.data.prompt(1)), rendered);
  EXPECT_EQ(lines.data.prompt(2), lines.data.prompt(1));
}

TEST(Dataset, OnlyTheCompletionOfAChatIsTrained) {
  Lines lines(
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\","
      " \"content\": \"hello\"}, {\"role\": \"user\", \"content\": \"b\"}],"
      " \"completion\": [{\"role\": \"assistant\", \"content\": \" world\"}]}",
      {}, "chatml");
  Example e = *lines.data.example(0);
  Ids trained;
  for (size_t i = 0; i < e.ids.size(); ++i) {
    if (e.loss_mask[i] == 1) trained.push_back(e.ids[i]);
  }
  EXPECT_EQ(trained, (Ids{264, 271}));
}

TEST(Dataset, PreferencePairs) {
  Lines lines(
      "{\"prompt\": \"hello\", \"chosen\": \" world\", \"rejected\": \"think\"}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}],"
      " \"chosen\": [{\"role\": \"assistant\", \"content\": \"hello\"}],"
      " \"rejected\": [{\"role\": \"assistant\", \"content\": \"in\"}]}",
      {}, "chatml");
  PreferencePair text = *lines.data.pair(0);
  EXPECT_EQ(text.chosen.ids, (Ids{259, 264}));
  EXPECT_EQ(text.rejected.ids.front(), 259);
  EXPECT_EQ(text.rejected.loss_mask.front(), 0);
  PreferencePair chat = *lines.data.pair(1);
  size_t same = 0;
  while (chat.chosen.ids[same] == chat.rejected.ids[same]) ++same;
  EXPECT_EQ(chat.chosen.ids[same], 259);
  EXPECT_EQ(chat.chosen.loss_mask[same], 1);
  EXPECT_EQ(chat.chosen.loss_mask[same - 1], 0);
}

// H4: the mask is cut with the ids.
TEST(Dataset, TruncationKeepsTheEndAndItsMask) {
  std::string line = one_line(kThinking);
  Lines whole(line);
  Example full = *whole.data.example(0);
  for (size_t gone : {1U, 6U, 30U}) {
    DatasetOptions options;
    options.max_tokens = static_cast<int64_t>(full.ids.size() - gone);
    Lines cut(line, options);
    Example e = *cut.data.example(0);
    auto from = static_cast<int64_t>(gone);
    EXPECT_EQ(e.ids, Ids(full.ids.begin() + from, full.ids.end()));
    EXPECT_EQ(e.loss_mask, Mask(full.loss_mask.begin() + from, full.loss_mask.end()));
    EXPECT_EQ(cut.data.counts().truncated, 1U);
  }
}

TEST(Dataset, WhatIsLeftOutIsCounted) {
  std::string text = one_line(kThinking) + "\n{\"text\": \"hello\"}\n" +
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"in\"}]}\n" +
                     "{\"text\": \"hello world\"}\n{\"text\": 5}\n{\"text\": \n[]\n";
  DatasetOptions options;
  options.max_tokens = 20;
  options.truncation = Truncation::drop;
  options.bad_lines = BadLines::skip;
  Lines lines(text, options);
  ASSERT_EQ(lines.data.size(), 7U);
  size_t kept = 0;
  for (size_t i = 0; i < lines.data.size(); ++i) kept += lines.data.example(i).has_value() ? 1 : 0;
  EXPECT_EQ(kept, 1U);
  DatasetCounts expected;
  expected.examples = 1;
  expected.too_long = 1;
  expected.untrainable = 2;  // a single token has no predecessor; a chat without an answer
  expected.bad = 3;
  EXPECT_EQ(lines.data.counts(), expected);
  EXPECT_EQ(dataset_counts_from_json(to_json(expected), "t"), expected);
}

// A cut that leaves only tokens without loss leaves nothing to train on.
TEST(Dataset, TruncationMayLeaveNothingTrainable) {
  DatasetOptions options;
  options.max_tokens = 2;
  Lines lines(
      "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"},"
      " {\"role\": \"user\", \"content\": \"hello\"}]}",
      options, "chatml");
  EXPECT_FALSE(lines.data.example(0).has_value());
  EXPECT_EQ(lines.data.counts().untrainable, 1U);
  EXPECT_EQ(lines.data.counts().truncated, 1U);
}

TEST(Dataset, ToolsOfALineReachTheTemplate) {
  Lines lines(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"in\"}, {\"role\": \"assistant\","
      " \"content\": \"a\"}], \"tools\": [{\"name\": \"adder\"}]}");
  std::string text = lines.data.tokenizer().decode(lines.data.example(0)->ids);
  EXPECT_NE(text.find("<tools>\n{\"name\": \"adder\"}\n</tools>"), std::string::npos) << text;
}

}  // namespace
}  // namespace strata::data
