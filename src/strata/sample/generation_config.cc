#include "strata/sample/generation_config.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "strata/base/error.h"

namespace strata::sample {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kHonoured = {
    "temperature",        "top_k",          "top_p",         "min_p",
    "repetition_penalty", "max_new_tokens", "min_new_tokens"};

// HF's settings that change answers, with the values at which they do not.
const std::vector<std::pair<const char*, Json>>& unserved() {
  static const std::vector<std::pair<const char*, Json>> kUnserved = {
      {"num_beams", 1},
      {"num_beam_groups", 1},
      {"penalty_alpha", nullptr},
      {"typical_p", 1.0},
      {"epsilon_cutoff", 0.0},
      {"eta_cutoff", 0.0},
      {"no_repeat_ngram_size", 0},
      {"encoder_repetition_penalty", 1.0},
      {"bad_words_ids", nullptr},
      {"suppress_tokens", nullptr},
      {"begin_suppress_tokens", nullptr},
      {"forced_bos_token_id", nullptr},
      {"forced_eos_token_id", nullptr},
      {"sequence_bias", nullptr},
      {"guidance_scale", nullptr},
      {"watermarking_config", nullptr},
      {"exponential_decay_length_penalty", nullptr},
      {"top_h", nullptr},
      {"dola_layers", nullptr}};
  return kUnserved;
}

Json read_object(const fs::path& path) {
  Json json = read_json(path);
  require(json.is_object(), {.id = "sample.generation_config",
                             .where = path.string(),
                             .expected = "a JSON object",
                             .got = json.type_name(),
                             .code = Code::data_loss});
  return json;
}

// The ids under eos_token_id: a number or a list of them; none when absent or null.
std::vector<int32_t> eos_of(const Json& object, const std::string& where) {
  auto it = object.find("eos_token_id");
  if (it == object.end() || it->is_null()) return {};
  std::vector<int32_t> out;
  for (const Json& id : it->is_array() ? *it : Json::array({*it})) {
    bool fits = id.is_number_integer() && id.get<int64_t>() >= 0 &&
                id.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    require(fits, {.id = "sample.eos",
                   .where = where + ": eos_token_id",
                   .expected = "a token id or a list of them",
                   .got = it->dump()});
    out.push_back(id.get<int32_t>());
  }
  return out;
}

// The ids of config.json, whose text part may stand in `text_config`.
std::vector<int32_t> eos_of_model(const fs::path& path) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return {};
  Json config = read_object(path);
  std::vector<int32_t> ids = eos_of(config, path.string());
  auto text = config.find("text_config");
  if (ids.empty() && text != config.end() && text->is_object()) {
    ids = eos_of(*text, path.string() + ": text_config");
  }
  return ids;
}

void read_defaults(const Json& object, const std::string& where, GenerationConfig& out) {
  for (std::string_view name : kHonoured) {
    auto it = object.find(std::string(name));
    if (it != object.end() && !it->is_null()) set_field(out.defaults, name, *it, where);
  }
  if (!get_bool_or(object, "do_sample", true, where)) out.defaults.temperature = 0;
  for (const auto& [name, neutral] : unserved()) {
    auto it = object.find(name);
    if (it == object.end() || it->is_null() || *it == neutral) continue;
    out.declined.push_back(where + ": " + name + " = " + it->dump() + " is not served");
  }
  check(out.defaults, where);
}

}  // namespace

GenerationConfig read_generation_config(const fs::path& directory) {
  GenerationConfig out;
  fs::path path = directory / "generation_config.json";
  std::error_code ec;
  if (fs::exists(path, ec)) {
    Json object = read_object(path);
    out.eos = eos_of(object, path.string());
    read_defaults(object, path.string(), out);
  }
  if (out.eos.empty()) out.eos = eos_of_model(directory / "config.json");
  return out;
}

}  // namespace strata::sample
