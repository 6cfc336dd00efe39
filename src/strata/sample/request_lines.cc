#include "strata/sample/request_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"

namespace strata::sample {
namespace {

const std::vector<std::string>& prompt_keys() {
  static const std::vector<std::string> kKeys = {"prompt", "messages", "tokens"};
  return kKeys;
}

[[noreturn]] void fail_type(const std::string& where, const char* expected, const Json& got) {
  fail({.id = "sample.request_type", .where = where, .expected = expected, .got = got.dump()});
}

std::vector<int32_t> token_ids(const Json& list, const std::string& where) {
  if (!list.is_array()) fail_type(where, "tokens as a list of ids", list);
  std::vector<int32_t> out;
  for (const Json& id : list) {
    bool fits = id.is_number_integer() && id.get<int64_t>() >= 0 &&
                id.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) fail_type(where, "tokens as a list of ids", id);
    out.push_back(id.get<int32_t>());
  }
  return out;
}

std::vector<int32_t> prompt_of(const Json& line, const std::string& where, const Prompts& prompts) {
  if (line.contains("tokens")) return token_ids(line["tokens"], where);
  try {
    if (line.contains("messages")) return prompts.of_chat(line["messages"]);
    const Json& text = line["prompt"];
    if (!text.is_string()) fail_type(where, "prompt as a text", text);
    return prompts.of_text(text.get_ref<const std::string&>());
  } catch (Error& e) {
    e.add_context("in " + where);
    throw;
  }
}

void check_keys(const Json& line, const std::string& where) {
  std::vector<std::string> settings = setting_names(), known = settings;
  known.emplace_back("id");
  known.insert(known.end(), prompt_keys().begin(), prompt_keys().end());
  for (const auto& [key, value] : line.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail({.id = "sample.request_key",
          .where = where,
          .expected = "id, prompt, messages, tokens or a sampling setting",
          .got = "'" + key + "'",
          .cure = "The nearest is '" + nearest(key, known) + "'"});
  }
  int64_t kinds = 0;
  for (const std::string& key : prompt_keys()) kinds += line.contains(key) ? 1 : 0;
  require(kinds == 1, {.id = "sample.request_keys",
                       .where = where,
                       .expected = "one of prompt, messages and tokens",
                       .got = std::to_string(kinds) + " of them"});
}

}  // namespace

RequestLine parse_request(std::string_view text, const std::string& where, int64_t number,
                          const Prompts& prompts, const SamplingSettings& defaults) {
  Json line = parse_json(text, where, DuplicateKeys::refuse);
  if (!line.is_object()) fail_type(where, "a JSON object", line);
  check_keys(line, where);
  RequestLine out;
  out.id = line.contains("id") ? line["id"] : Json(number);
  if (!out.id.is_string() && !out.id.is_number_integer()) {
    fail_type(where, "id as a text or an integer", out.id);
  }
  Request& r = out.request;
  r.id = out.id.is_string() ? out.id.get<std::string>() : out.id.dump();
  r.settings = defaults;
  for (const std::string& name : setting_names()) {
    auto it = line.find(name);
    if (it != line.end()) set_field(r.settings, name, *it, where);
  }
  check(r.settings, where);
  r.tokens = prompt_of(line, where, prompts);
  return out;
}

std::vector<RequestLine> read_requests(const std::filesystem::path& path, const Prompts& prompts,
                                       const SamplingSettings& defaults) {
  std::vector<RequestLine> out;
  std::map<std::string, int64_t> line_of;
  int64_t number = 0;
  for (const std::string& line : split(read_file(path), '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    std::string where = fmt::format("{}:{}", path.string(), number);
    out.push_back(parse_request(line, where, number, prompts, defaults));
    const std::string& id = out.back().request.id;
    auto [first, added] = line_of.emplace(id, number);
    require(added, {.id = "sample.request_twice",
                    .where = where,
                    .expected = "ids that differ",
                    .got = fmt::format("'{}', which line {} has", id, first->second),
                    .code = Code::already_exists});
  }
  require(!out.empty(), {.id = "sample.no_requests",
                         .where = path.string(),
                         .expected = "at least one line with a request",
                         .got = "none",
                         .code = Code::not_found});
  return out;
}

std::string result_line(const Result& result, const Json& id, bool numbered) {
  Json line;
  line["id"] = id;
  if (numbered) line["sample"] = result.sample;
  line["tokens"] = result.tokens;
  line["logprobs"] = result.logprobs;
  line["text"] = result.text;
  line["finish_reason"] = name_of(result.finish_reason);
  if (!result.error.empty()) line["error"] = result.error;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace strata::sample
