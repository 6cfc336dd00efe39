#include "strata/data/dataset.h"

#include <algorithm>

#include "strata/base/error.h"

namespace strata::data {
namespace {

const Json* member(const Json& line, const char* key) {
  auto it = line.find(key);
  return it == line.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] void bad_line(const std::string& where, const std::string& expected,
                           const std::string& got) {
  fail({.id = "dataset.line", .where = where, .expected = expected, .got = got});
}

const Json& text_or_messages(const Json& line, const std::string& key, const std::string& where) {
  const Json* value = member(line, key.c_str());
  if (value == nullptr || !(value->is_string() || value->is_array())) {
    bad_line(where, "'" + key + "' as text or a list of messages",
             value == nullptr ? "nothing" : value->type_name());
  }
  return *value;
}

// Errors in what a line says are the line's, whatever found them; others are not.
bool is_about_the_line(const Error& e) {
  std::string_view id = e.id();
  for (std::string_view prefix :
       {"dataset.line", "json.", "chat.", "chat_template.raised", "chat_template.undefined",
        "chat_template.type", "chat_template.limit"}) {
    if (id.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

}  // namespace

BadLines parse_bad_lines(const std::string& name) {
  bool known = name == "stop" || name == "skip";
  require(known, {.id = "dataset.bad_lines",
                  .where = "what to do with bad lines",
                  .expected = "stop or skip",
                  .got = "'" + name + "'"});
  return name == "stop" ? BadLines::stop : BadLines::skip;
}

Truncation parse_truncation(const std::string& name) {
  bool known = name == "keep_end" || name == "drop";
  require(known, {.id = "dataset.truncation",
                  .where = "what to do with long examples",
                  .expected = "keep_end or drop",
                  .got = "'" + name + "'"});
  return name == "drop" ? Truncation::drop : Truncation::keep_end;
}

Json to_json(const DatasetCounts& c) {
  return Json{{"examples", c.examples},
              {"truncated", c.truncated},
              {"too_long", c.too_long},
              {"untrainable", c.untrainable},
              {"bad", c.bad}};
}

DatasetCounts dataset_counts_from_json(const Json& json, const std::string& where) {
  auto count = [&](const char* key) { return static_cast<size_t>(get_int(json, key, where)); };
  return {count("examples"), count("truncated"), count("too_long"), count("untrainable"),
          count("bad")};
}

Dataset::Dataset(const std::filesystem::path& path, Tokenizer tokenizer,
                 std::optional<ChatTemplate> chat, DatasetOptions options)
    : lines_(path),
      tokenizer_(std::move(tokenizer)),
      chat_(std::move(chat)),
      options_(std::move(options)) {
  require(options_.max_tokens >= 2, {.id = "dataset.max_tokens",
                                     .where = path.string(),
                                     .expected = "max_tokens of at least 2",
                                     .got = std::to_string(options_.max_tokens)});
}

void Dataset::append_text(const std::string& text, bool special, bool trained, Example* out) const {
  std::vector<int32_t> ids = tokenizer_.encode(text, {.add_special_tokens = special});
  out->ids.insert(out->ids.end(), ids.begin(), ids.end());
  out->loss_mask.resize(out->ids.size(), trained ? 1 : 0);
}

EncodedChat Dataset::chat(const Json& line, const Json& messages, size_t first_trained, bool ask,
                          const std::string& where) const {
  require(chat_.has_value(), {.id = "dataset.no_template",
                              .where = where,
                              .expected = "a chat template for a line with messages",
                              .got = "a model without one",
                              .cure = "Add chat_template.jinja to the model's directory, or give "
                                      "{\"prompt\", \"completion\"} as text",
                              .code = Code::failed_precondition});
  ChatOptions options = options_.chat;
  options.add_generation_prompt = ask;
  const Json* tools = member(line, "tools");
  if (tools != nullptr) options.tools = *tools;
  try {
    return encode_chat(tokenizer_, *chat_, messages, options, first_trained);
  } catch (Error& e) {
    e.add_context("while reading " + where);
    throw;
  }
}

Example Dataset::encode_messages(const Json& line, const Json& messages, size_t first_trained,
                                 const std::string& where) const {
  EncodedChat encoded = chat(line, messages, first_trained, false, where);
  return {std::move(encoded.ids), std::move(encoded.assistant)};
}

Example Dataset::encode_completion(const Json& line, const std::string& key,
                                   const std::string& where) const {
  const Json& prompt = text_or_messages(line, "prompt", where);
  const Json& completion = text_or_messages(line, key, where);
  if (prompt.type() != completion.type()) {
    bad_line(where, "'prompt' and '" + key + "' both as text or both as lists of messages",
             std::string(prompt.type_name()) + " and " + completion.type_name());
  }
  if (prompt.is_array()) {
    Json messages = prompt;
    for (const Json& message : completion) messages.push_back(message);
    return encode_messages(line, messages, prompt.size(), where);
  }
  Example out;
  append_text(prompt.get<std::string>(), true, false, &out);
  append_text(completion.get<std::string>(), false, true, &out);
  if (options_.eos_id.has_value()) {
    out.ids.push_back(*options_.eos_id);
    out.loss_mask.push_back(1);
  }
  return out;
}

Example Dataset::encode(const Json& line, const std::string& where) const {
  if (const Json* messages = member(line, "messages")) {
    return encode_messages(line, *messages, 0, where);
  }
  if (member(line, "prompt") != nullptr) return encode_completion(line, "completion", where);
  if (member(line, "text") == nullptr) {
    std::string keys;
    for (auto it = line.begin(); it != line.end(); ++it) {
      keys += (keys.empty() ? "" : ", ") + it.key();
    }
    bad_line(where, "'messages', 'prompt' with 'completion', or 'text'",
             keys.empty() ? "an empty object" : "the keys " + keys);
  }
  Example out;
  append_text(get_string(line, "text", where), true, true, &out);
  if (options_.eos_id.has_value()) {
    out.ids.push_back(*options_.eos_id);
    out.loss_mask.push_back(1);
  }
  return out;
}

bool Dataset::fit(Example* example) {
  auto most = static_cast<size_t>(options_.max_tokens);
  if (example->ids.size() > most) {
    if (options_.truncation == Truncation::drop) {
      ++counts_.too_long;
      return false;
    }
    auto gone = static_cast<int64_t>(example->ids.size() - most);
    example->ids.erase(example->ids.begin(), example->ids.begin() + gone);
    example->loss_mask.erase(example->loss_mask.begin(), example->loss_mask.begin() + gone);
    ++counts_.truncated;
  }
  // The first id has nothing before it that could predict it.
  bool trains =
      !example->ids.empty() && std::any_of(example->loss_mask.begin() + 1, example->loss_mask.end(),
                                           [](uint8_t m) { return m != 0; });
  if (!trains) ++counts_.untrainable;
  return trains;
}

std::optional<Example> Dataset::example(size_t index) {
  Example out;
  try {
    out = encode(lines_.read(index), lines_.where(index));
  } catch (const Error& e) {
    if (options_.bad_lines == BadLines::stop || !is_about_the_line(e)) throw;
    ++counts_.bad;
    return std::nullopt;
  }
  if (!fit(&out)) return std::nullopt;
  ++counts_.examples;
  return out;
}

std::optional<PreferencePair> Dataset::pair(size_t index) {
  PreferencePair out;
  try {
    Json line = lines_.read(index);
    out.chosen = encode_completion(line, "chosen", lines_.where(index));
    out.rejected = encode_completion(line, "rejected", lines_.where(index));
  } catch (const Error& e) {
    if (options_.bad_lines == BadLines::stop || !is_about_the_line(e)) throw;
    ++counts_.bad;
    return std::nullopt;
  }
  if (!fit(&out.chosen) || !fit(&out.rejected)) return std::nullopt;
  ++counts_.examples;
  return out;
}

std::vector<int32_t> Dataset::prompt(size_t index) const {
  Json line = lines_.read(index);
  std::string where = lines_.where(index);
  if (const Json* messages = member(line, "messages")) {
    return chat(line, *messages, 0, true, where).ids;
  }
  const Json& prompt = text_or_messages(line, "prompt", where);
  if (prompt.is_array()) return chat(line, prompt, 0, true, where).ids;
  return tokenizer_.encode(prompt.get<std::string>());
}

}  // namespace strata::data
