// Lines of a JSONL file → token ids with a loss mask.
//
// A line is one of
//   {"messages": [{"role", "content"}, …]}            a chat; loss on the assistant's tokens
//   {"prompt": P, "completion": C}                    loss on the completion
//   {"text": T}                                       loss on every token
//   {"prompt": P, "chosen": C, "rejected": C}         a preference pair
// where P and C are both text, encoded as it is (special tokens written in it count), or both
// lists of messages, rendered by the chat template. Chats may carry "tools". Other keys are
// ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "strata/data/chat_encode.h"
#include "strata/data/json_lines.h"
#include "strata/data/tokenizer.h"

namespace strata::data {

// `loss_mask` has one entry per id: 1 where the model is trained to predict that id.
struct Example {
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss_mask;
};

struct PreferencePair {
  Example chosen;
  Example rejected;
};

enum class BadLines { stop, skip };
enum class Truncation {
  keep_end,  // cut ids and mask from the left: the end of the completion stays
  drop,      // leave the example out
};

// Throw invalid_argument listing the names.
BadLines parse_bad_lines(const std::string& name);     // "stop", "skip"
Truncation parse_truncation(const std::string& name);  // "keep_end", "drop"

struct DatasetOptions {
  int64_t max_tokens = 2048;  // longest example
  Truncation truncation = Truncation::keep_end;
  BadLines bad_lines = BadLines::stop;
  // Ends "text" and text completions, so that the model learns to stop; none: nothing is added.
  std::optional<int32_t> eos_id;
  // Template variables and the like for chats.
  ChatOptions chat;
};

// What became of the lines that were asked for; a line asked for again counts again.
struct DatasetCounts {
  size_t examples = 0;
  size_t truncated = 0;    // cut (keep_end)
  size_t too_long = 0;     // left out (drop)
  size_t untrainable = 0;  // left out: no token with loss was left
  size_t bad = 0;          // left out: malformed (skip)
  bool operator==(const DatasetCounts&) const = default;
};

Json to_json(const DatasetCounts& counts);
// Throws as get_int.
DatasetCounts dataset_counts_from_json(const Json& json, const std::string& where);

// One file. Lines are read and encoded when they are asked for, so files of any size do. Not
// thread-safe (it counts).
class Dataset {
 public:
  // Throws as JsonLines. Chats need a template: without one a line with messages is an error.
  Dataset(const std::filesystem::path& path, Tokenizer tokenizer, std::optional<ChatTemplate> chat,
          DatasetOptions options = {});

  size_t size() const { return lines_.size(); }
  const JsonLines& lines() const { return lines_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const DatasetCounts& counts() const { return counts_; }
  // Sets the counts back, as when a run resumes.
  void set_counts(const DatasetCounts& counts) { counts_ = counts; }

  // The example of line `index`, or nothing when it was left out (and counted). With
  // BadLines::stop a malformed line throws, naming file:line.
  std::optional<Example> example(size_t index);
  // The same for a preference pair; it is left out when either side is.
  std::optional<PreferencePair> pair(size_t index);
  // The ids of a line's "prompt" (or of "messages"), ready for an answer.
  std::vector<int32_t> prompt(size_t index) const;

 private:
  Example encode(const Json& line, const std::string& where) const;
  Example encode_completion(const Json& line, const std::string& key,
                            const std::string& where) const;
  Example encode_messages(const Json& line, const Json& messages, size_t first_trained,
                          const std::string& where) const;
  EncodedChat chat(const Json& line, const Json& messages, size_t first_trained, bool ask,
                   const std::string& where) const;
  void append_text(const std::string& text, bool special, bool trained, Example* out) const;
  // Cuts as the options say; false when the example is left out.
  bool fit(Example* example);

  JsonLines lines_;
  Tokenizer tokenizer_;
  std::optional<ChatTemplate> chat_;
  DatasetOptions options_;
  DatasetCounts counts_;
};

}  // namespace strata::data
