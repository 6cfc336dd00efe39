#include "strata/rl/prompts.h"

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"
#include "strata/data/batching.h"

namespace strata::rl {
namespace {

void require_some(size_t count, const std::string& where) {
  require(count > 0, {.id = "rl.prompts_empty",
                      .where = where,
                      .expected = "at least one problem",
                      .got = "none"});
}

Example example_of(const Json& line, const std::string& where, size_t number) {
  Example e;
  e.id = get_string_or(line, "id", "line:" + std::to_string(number), where);
  e.answer = get_string_or(line, "answer", "", where);
  if (line.contains("meta")) e.meta = line["meta"];
  if (line.contains("prompt")) {
    e.messages.push_back({"user", get_string(line, "prompt", where)});
    return e;
  }
  bool list = line.contains("messages") && line["messages"].is_array() && !line["messages"].empty();
  require(list, {.id = "rl.prompt_line",
                 .where = where,
                 .expected = "'prompt' or a list of 'messages'",
                 .got = line.dump().substr(0, 80),
                 .code = Code::data_loss});
  for (const Json& m : line["messages"]) {
    e.messages.push_back({get_string(m, "role", where), get_string(m, "content", where)});
  }
  return e;
}

}  // namespace

std::vector<Example> read_prompts(const std::filesystem::path& path) {
  std::vector<Example> out;
  size_t number = 0;
  for (const std::string& text : split(read_file(path), '\n')) {
    ++number;
    if (trim(text).empty()) continue;
    std::string where = path.string() + ":" + std::to_string(number);
    out.push_back(example_of(parse_json(text, where), where, number));
  }
  require_some(out.size(), path.string());
  return out;
}

std::vector<const Example*> prompts_of_step(std::span<const Example> examples, int64_t step,
                                            int64_t count, uint64_t seed) {
  require_some(examples.size(), "training problems");
  std::vector<const Example*> out;
  uint64_t epoch = UINT64_MAX;
  std::vector<uint32_t> order;
  for (int64_t k = step * count; k < (step + 1) * count; ++k) {
    auto place = static_cast<uint64_t>(k);
    if (place / examples.size() != epoch) {
      epoch = place / examples.size();
      order = data::epoch_order(examples.size(), seed, static_cast<int64_t>(epoch), true);
    }
    out.push_back(&examples[order[place % examples.size()]]);
  }
  return out;
}

}  // namespace strata::rl
