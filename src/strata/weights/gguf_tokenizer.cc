#include "strata/weights/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/weights/gguf_pieces.h"

namespace strata::weights {
namespace {

// How a family cuts text before merging.
struct PreTokenizer {
  std::string_view names;                    // values of tokenizer.ggml.pre, separated by blanks
  bool single_digits;                        // every digit on its own, before all else
  bool gpt2_pattern;                         // the pattern built into the byte-level step
  std::array<std::string_view, 4> patterns;  // applied one after the other
  bool nfc;
  bool ignore_merges;  // a piece that is a token is taken whole
  bool add_bos;        // unless tokenizer.ggml.add_bos_token says otherwise
};

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";

constexpr std::array<PreTokenizer, 5> kPreTokenizers = {{
    {"smollm starcoder refact command-r codeshell", true, true, {}, false, false, false},
    {"gpt-2 phi-2 mpt olmo jais", false, true, {}, false, false, false},
    {"qwen2 deepseek-r1-qwen", false, false, {kQwen2Pattern}, true, false, false},
    {"llama-bpe llama3 llama-v3", false, false, {kLlama3Pattern}, false, true, true},
    // What llama.cpp does with files that name no split.
    {"default",
     false,
     false,
     {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"},
     false,
     false,
     false},
}};

constexpr std::string_view kMark = "\xe2\x96\x81";  // a space in a piece

// tokenizer.ggml.token_type
constexpr int64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5;

class TokenizerReader {
 public:
  TokenizerReader(const GgufFile& file, int64_t vocab_size);
  GgufTokenizer read(int64_t context_length);

 private:
  void read_tokens(int64_t vocab_size);
  void read_types();
  const PreTokenizer& pre_tokenizer() const;
  int64_t token_id(const char* name) const;
  Json added_token(int64_t id, bool with_id) const;
  Json vocabulary() const;
  Json merges() const;
  Json merges_by_score() const;
  Json model_json(const PreTokenizer* pre) const;
  void refuse_foreign_pieces() const;
  Json post_processor(bool bos, bool eos) const;
  // `pre` is null for pieces.
  Json tokenizer_json(const PreTokenizer* pre, bool bos, bool eos) const;
  Json config_json(bool bos, bool eos, int64_t context_length) const;
  Json generation_json() const;
  std::string text_of(int64_t id) const { return std::string(tokens_[static_cast<size_t>(id)]); }
  // A piece with marks in it cannot be looked for in a text with spaces; it is merged instead.
  bool is_marked(size_t id) const {
    return pieces_ && tokens_[id].find(kMark) != std::string_view::npos;
  }
  bool is_added(size_t id) const {
    bool unknown = pieces_ && types_[id] == kUnknown;
    return types_[id] == kControl || unknown || (types_[id] == kUserDefined && !is_marked(id));
  }
  bool is_special(size_t id) const {
    return types_[id] == kControl || (pieces_ && types_[id] == kUnknown);
  }
  bool adds_prefix() const { return file_.get_bool_or("tokenizer.ggml.add_space_prefix", true); }

  const GgufFile& file_;
  std::string where_;
  bool pieces_ = false;  // SentencePiece's, not byte-level
  std::vector<std::string_view> tokens_;
  std::vector<int64_t> types_;
  std::unordered_map<std::string_view, size_t> ids_;
};

TokenizerReader::TokenizerReader(const GgufFile& file, int64_t vocab_size)
    : file_(file), where_(file.path().string()) {
  std::string model = file.get_string("tokenizer.ggml.model");
  pieces_ = model == "llama";
  if (model != "gpt2" && !pieces_) {
    unimplemented({.id = "weights.import_tokenizer",
                   .where = where_ + ", tokenizer.ggml.model",
                   .expected = "gpt2 (byte-level BPE) or llama (SentencePiece BPE)",
                   .got = "'" + model + "'",
                   .cure = "Take tokenizer.json from the original model"});
  }
  read_tokens(vocab_size);
  read_types();
  if (pieces_) refuse_foreign_pieces();
}

// What a SentencePiece model may do to a text beyond what tokenizer.json is written for.
void TokenizerReader::refuse_foreign_pieces() const {
  const char* spaces = "tokenizer.ggml.remove_extra_whitespaces";
  const char* map = "tokenizer.ggml.precompiled_charsmap";
  bool removes = file_.get_bool_or(spaces, false);
  if (!removes && file_.find(map) == nullptr) return;
  unimplemented({.id = "weights.import_pieces",
                 .where = fmt::format("{}, {}", where_, removes ? spaces : map),
                 .expected = "a text that is taken as it is",
                 .got = removes ? "spaces that are removed" : "a map of characters",
                 .cure = "Take tokenizer.json from the original model"});
}

void TokenizerReader::read_tokens(int64_t vocab_size) {
  tokens_ = file_.get_strings("tokenizer.ggml.tokens");
  bool fits = !tokens_.empty() && std::ssize(tokens_) <= vocab_size;
  require(fits, {.id = "weights.import_vocabulary",
                 .where = where_ + ", tokenizer.ggml.tokens",
                 .expected = fmt::format("1 to {} tokens, one for each embedding row", vocab_size),
                 .got = std::to_string(tokens_.size())});
  for (size_t i = 0; i < tokens_.size(); ++i) {
    bool first = ids_.emplace(tokens_[i], i).second;
    if (first && is_utf8(tokens_[i])) continue;
    fail({.id = "weights.import_token",
          .where = fmt::format("{}, token {}", where_, i),
          .expected = "unique UTF-8 text",
          .got = first ? "other bytes" : fmt::format("the text of token {}", ids_[tokens_[i]]),
          .code = Code::data_loss});
  }
}

void TokenizerReader::read_types() {
  const char* key = "tokenizer.ggml.token_type";
  if (file_.find(key) == nullptr) {
    types_.assign(tokens_.size(), 1);
    for (const char* name : {"bos", "eos", "eot", "eom", "padding", "unknown"}) {
      int64_t id = token_id(name);
      if (id >= 0) types_[static_cast<size_t>(id)] = kControl;
    }
    return;
  }
  types_ = file_.get_ints(key);
  require(types_.size() == tokens_.size(), {.id = "weights.import_token_types",
                                            .where = fmt::format("{}, {}", where_, key),
                                            .expected = fmt::format("{} types", tokens_.size()),
                                            .got = std::to_string(types_.size())});
}

// -1 when the file names no such token.
int64_t TokenizerReader::token_id(const char* name) const {
  std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  int64_t id = file_.get_int_or(key, -1);
  bool present = file_.find(key) != nullptr;
  require(!present || (id >= 0 && id < std::ssize(tokens_)),
          {.id = "weights.import_token_id",
           .where = fmt::format("{}, {}", where_, key),
           .expected = fmt::format("a token from 0 to {}", tokens_.size() - 1),
           .got = std::to_string(id)});
  return id;
}

const PreTokenizer& TokenizerReader::pre_tokenizer() const {
  const char* key = "tokenizer.ggml.pre";
  if (file_.find(key) == nullptr) {
    log_warning(where_ +
                ": no tokenizer.ggml.pre; using llama.cpp's default split, which may not "
                "be the model's own");
  }
  std::string name = file_.get_string_or(key, "default");
  std::vector<std::string> known;
  for (const PreTokenizer& row : kPreTokenizers) {
    for (const std::string& n : split(row.names, ' ')) {
      if (n == name) return row;
      known.push_back(n);
    }
  }
  unimplemented({.id = "weights.import_pre",
                 .where = fmt::format("{}, {}", where_, key),
                 .expected = "a known split, one of " + join(known, ", "),
                 .got = "'" + name + "'",
                 .cure = "Take tokenizer.json from the original model"});
}

Json TokenizerReader::added_token(int64_t id, bool with_id) const {
  Json token = Json::object();
  if (with_id) token["id"] = id;
  token["content"] = text_of(id);
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) token[flag] = false;
  token["special"] = is_special(static_cast<size_t>(id));
  return token;
}

Json TokenizerReader::vocabulary() const {
  Json vocabulary = Json::object();
  auto& pairs = vocabulary.get_ref<Json::object_t&>();
  for (size_t i = 0; i < tokens_.size(); ++i) {
    // Appends without the ordered map's search: the texts are known to be unique.
    if (types_[i] != kUnused) pairs.emplace_back(std::string(tokens_[i]), i);
  }
  return vocabulary;
}

Json TokenizerReader::merges() const {
  Json list = Json::array();
  std::vector<std::string_view> merges = file_.get_strings("tokenizer.ggml.merges");
  for (size_t i = 0; i < merges.size(); ++i) {
    size_t blank = merges[i].find(' ', 1);  // a token may begin with a blank
    bool known = blank != std::string_view::npos;
    std::string left(merges[i].substr(0, blank)), right;
    if (known) {
      right = merges[i].substr(blank + 1);
      known = ids_.count(left) > 0 && ids_.count(right) > 0 && ids_.count(left + right) > 0;
    }
    require(known, {.id = "weights.import_merge",
                    .where = fmt::format("{}, tokenizer.ggml.merges, entry {}", where_, i),
                    .expected = "two tokens, separated by a blank, whose join is a token",
                    .got = is_utf8(merges[i]) ? fmt::format("'{}'", merges[i].substr(0, 100))
                                              : std::string("bytes that are not UTF-8"),
                    .code = Code::data_loss});
    list.push_back(Json::array({left, right}));
  }
  return list;
}

Json TokenizerReader::merges_by_score() const {
  const char* key = "tokenizer.ggml.scores";
  const GgufValue* value = file_.find(key);
  std::vector<double> scores = value == nullptr ? std::vector<double>() : value->doubles();
  require(scores.size() == tokens_.size(),
          {.id = "weights.import_scores",
           .where = fmt::format("{}, {}", where_, key),
           .expected = fmt::format("{} numbers, one for each token", tokens_.size()),
           .got = value == nullptr ? "no such key" : fmt::format("{} numbers", scores.size())});
  std::vector<uint8_t> mergeable(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    bool user = types_[i] == kUserDefined && is_marked(i);
    mergeable[i] = types_[i] == kNormal || user ? 1 : 0;
  }
  return merges_of_pieces(tokens_, mergeable, scores);
}

Json TokenizerReader::post_processor(bool bos, bool eos) const {
  if (!bos && !eos) return nullptr;
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  auto special = [&](const char* name, int type) {
    int64_t id = token_id(name);
    require(id >= 0, {.id = "weights.import_added",
                      .where = where_,
                      .expected = fmt::format("tokenizer.ggml.{}_token_id, since "
                                              "tokenizer.ggml.add_{}_token is set",
                                              name, name),
                      .got = "no such key"});
    std::string text = text_of(id);
    tokens[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
    return Json{{"SpecialToken", {{"id", text}, {"type_id", type}}}};
  };
  for (int type : {0, 1}) {
    Json parts = Json::array();
    if (bos) parts.push_back(special("bos", type));
    parts.push_back({{"Sequence", {{"id", type == 0 ? "A" : "B"}, {"type_id", type}}}});
    if (eos) parts.push_back(special("eos", type));
    if (type == 0) single = parts;
    for (const Json& part : parts) pair.push_back(part);
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

Json pre_tokenizer_json(const PreTokenizer& pre) {
  Json steps = Json::array();
  if (pre.single_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  for (std::string_view pattern : pre.patterns) {
    if (pattern.empty()) continue;
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  Json bytes = {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", pre.gpt2_pattern}};
  if (steps.empty()) return bytes;
  steps.push_back(bytes);
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json TokenizerReader::model_json(const PreTokenizer* pre) const {
  Json unknown = nullptr;
  for (size_t i = 0; pieces_ && i < tokens_.size() && unknown.is_null(); ++i) {
    if (types_[i] == kUnknown) unknown = text_of(static_cast<int64_t>(i));
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", pieces_},
          {"byte_fallback", pieces_ && ids_.count("<0x00>") > 0},
          {"ignore_merges", pre != nullptr && pre->ignore_merges},
          {"vocab", vocabulary()},
          {"merges", pieces_ ? merges_by_score() : merges()}};
}

Json TokenizerReader::tokenizer_json(const PreTokenizer* pre, bool bos, bool eos) const {
  Json added = Json::array();
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (is_added(i)) added.push_back(added_token(static_cast<int64_t>(i), true));
  }
  Json normalizer = nullptr, pre_tokenizer = nullptr, decoder;
  if (pre == nullptr) {
    normalizer = pieces_normalizer(adds_prefix());
    decoder = pieces_decoder(adds_prefix());
  } else {
    if (pre->nfc) normalizer = {{"type", "NFC"}};
    pre_tokenizer = pre_tokenizer_json(*pre);
    decoder = {{"type", "ByteLevel"},
               {"add_prefix_space", true},
               {"trim_offsets", true},
               {"use_regex", true}};
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", post_processor(bos, eos)},
          {"decoder", std::move(decoder)},
          {"model", model_json(pre)}};
}

Json TokenizerReader::config_json(bool bos, bool eos, int64_t context_length) const {
  Json decoder = Json::object();
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (is_added(i)) decoder[std::to_string(i)] = added_token(static_cast<int64_t>(i), false);
  }
  Json config = {{"add_bos_token", bos},
                 {"add_eos_token", eos},
                 {"add_prefix_space", pieces_ && adds_prefix()},
                 {"added_tokens_decoder", std::move(decoder)},
                 {"clean_up_tokenization_spaces", false},
                 {"model_max_length", context_length},
                 {"tokenizer_class", "PreTrainedTokenizerFast"}};
  const std::array<std::array<const char*, 2>, 4> names = {{{"bos_token", "bos"},
                                                            {"eos_token", "eos"},
                                                            {"pad_token", "padding"},
                                                            {"unk_token", "unknown"}}};
  for (const auto& row : names) {
    int64_t id = token_id(row[1]);
    if (id >= 0) config[row[0]] = text_of(id);
  }
  return config;
}

Json TokenizerReader::generation_json() const {
  Json config = Json::object();
  if (token_id("bos") >= 0) config["bos_token_id"] = token_id("bos");
  std::vector<int64_t> ends;
  for (const char* name : {"eos", "eot", "eom"}) {
    int64_t id = token_id(name);
    if (id >= 0 && std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }
  if (ends.size() == 1) config["eos_token_id"] = ends[0];
  if (ends.size() > 1) config["eos_token_id"] = ends;
  if (ends.empty()) log_warning(where_ + ": no end-of-sequence token is named");
  if (token_id("padding") >= 0) config["pad_token_id"] = token_id("padding");
  return config;
}

GgufTokenizer TokenizerReader::read(int64_t context_length) {
  const PreTokenizer* pre = pieces_ ? nullptr : &pre_tokenizer();
  bool bos = file_.get_bool_or("tokenizer.ggml.add_bos_token", pre == nullptr || pre->add_bos);
  bool eos = file_.get_bool_or("tokenizer.ggml.add_eos_token", false);
  GgufTokenizer out;
  out.tokenizer = tokenizer_json(pre, bos, eos);
  out.tokenizer_config = config_json(bos, eos, context_length);
  out.generation_config = generation_json();
  out.chat_template = file_.get_string_or("tokenizer.chat_template", "");
  require(is_utf8(out.chat_template), {.id = "weights.import_template",
                                       .where = where_ + ", tokenizer.chat_template",
                                       .expected = "UTF-8 text",
                                       .got = "other bytes",
                                       .code = Code::data_loss});
  if (!out.chat_template.empty()) out.tokenizer_config["chat_template"] = out.chat_template;
  return out;
}

}  // namespace

GgufTokenizer read_gguf_tokenizer(const GgufFile& file, int64_t vocab_size,
                                  int64_t context_length) {
  return TokenizerReader(file, vocab_size).read(context_length);
}

}  // namespace strata::weights
