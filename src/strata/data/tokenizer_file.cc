#include "strata/data/tokenizer_file.h"
#include "strata/data/tokenizer_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/base/error.h"

namespace strata::data {
namespace {

constexpr size_t kMaxDepth = 64;
// Keys of one object outside the vocabulary; finding a key is linear there.
constexpr size_t kMaxMembers = 4096;

int32_t checked_id(const std::string& where, const std::string& token, int64_t id) {
  if (id < 0 || id > kMaxTokenId) {
    malformed_tokenizer(where + ", token '" + token + "'",
                        fmt::format("an id in 0..{}", kMaxTokenId), std::to_string(id));
  }
  return static_cast<int32_t>(id);
}

// Builds a tree of everything but model.vocab and model.merges, which go straight into BpeData.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  Json root;
  BpeData bpe;
  bool saw_vocab = false;
  bool saw_merges = false;

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return integer(v); }
  bool number_unsigned(number_unsigned_t v) override {
    return integer(v > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(v));
  }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool string(string_t& v) override;
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool key(string_t& v) override {
    key_ = std::move(v);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override;
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string reason = e.what();
    malformed_tokenizer(fmt::format("{} at byte {}", where_, position), "valid JSON",
                        reason.substr(std::min(reason.size(), reason.find("] ") + 2)));
  }

 private:
  enum class Mode { tree, vocab, merges, pair };

  bool value(Json v) {
    if (mode_ == Mode::vocab)
      malformed_tokenizer(where_ + ", model.vocab", "integer ids", v.dump());
    if (mode_ != Mode::tree)
      malformed_tokenizer(where_ + ", model.merges", "pairs of tokens", v.dump());
    place(std::move(v));
    return true;
  }
  bool integer(int64_t v) {
    if (mode_ != Mode::vocab) return value(v);
    int32_t id = checked_id(where_ + ", model.vocab", key_, v);
    bpe.vocab.emplace_back(std::move(key_), id);
    return true;
  }
  bool in_model() const { return stack_.size() == 2 && path_ == "model"; }
  bool open(Json v);
  bool close() {
    if (mode_ == Mode::vocab) {
      mode_ = Mode::tree;
    } else {
      stack_.pop_back();
    }
    return true;
  }
  Json* place(Json v) {
    if (stack_.empty()) {
      root = std::move(v);
      return &root;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    if (parent.size() >= kMaxMembers) {
      malformed_tokenizer(where_ + ", key '" + key_ + "'",
                          fmt::format("at most {} members in an object", kMaxMembers), "more");
    }
    Json& slot = parent[key_];
    slot = std::move(v);
    return &slot;
  }

  const std::string& where_;
  std::vector<Json*> stack_;
  std::string path_;  // the key of the root's member that is open
  std::string key_;
  Mode mode_ = Mode::tree;
  std::vector<std::string> pair_;
};

bool Reader::string(string_t& v) {
  if (mode_ == Mode::merges) {
    size_t space = v.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == v.size() ||
        v.find(' ', space + 1) != std::string::npos) {
      malformed_tokenizer(fmt::format("{}, model.merges[{}]", where_, bpe.merges.size()),
                          "two tokens with a space between", "'" + v + "'");
    }
    bpe.merges.emplace_back(v.substr(0, space), v.substr(space + 1));
    return true;
  }
  if (mode_ != Mode::pair) return value(std::move(v));
  pair_.push_back(std::move(v));
  return true;
}

bool Reader::open(Json v) {
  if (mode_ == Mode::merges && v.is_array()) {
    mode_ = Mode::pair;
    pair_.clear();
    return true;
  }
  if (mode_ != Mode::tree) return value(std::move(v));
  if (in_model() && key_ == "vocab" && v.is_object()) {
    mode_ = Mode::vocab;
    saw_vocab = true;
    return true;
  }
  if (in_model() && key_ == "merges" && v.is_array()) {
    mode_ = Mode::merges;
    saw_merges = true;
    return true;
  }
  if (stack_.size() >= kMaxDepth) malformed_tokenizer(where_, "at most 64 nested levels", "more");
  if (stack_.size() == 1) path_ = key_;
  stack_.push_back(place(std::move(v)));
  return true;
}

bool Reader::end_array() {
  if (mode_ == Mode::pair) {
    if (pair_.size() != 2) {
      malformed_tokenizer(fmt::format("{}, model.merges[{}]", where_, bpe.merges.size()),
                          "two tokens", std::to_string(pair_.size()));
    }
    bpe.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    mode_ = Mode::merges;
    return true;
  }
  if (mode_ == Mode::merges) {
    mode_ = Mode::tree;
    return true;
  }
  return close();
}

// The member `key` as an object, or null.
Json member(const Json& object, const char* key, const std::string& where) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return nullptr;
  if (!it->is_object())
    malformed_tokenizer(where + ", key '" + key + "'", "an object", it->type_name());
  return *it;
}

// The member `key` as a list; empty when absent or null.
Json list_of(const Json& object, const char* key, const std::string& where) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return Json::array();
  if (!it->is_array())
    malformed_tokenizer(where + ", key '" + key + "'", "a list", it->type_name());
  return *it;
}

void read_model(const Reader& reader, const std::string& file, TokenizerFile* out) {
  std::string where = file + ", model";
  Json model = member(reader.root, "model", file);
  if (model.is_null()) malformed_tokenizer(file, "key 'model'", "none");
  std::string type = get_string_or(model, "type", "BPE", where);
  if (type != "BPE") unsupported_tokenizer(where, "type BPE", type);
  if (!reader.saw_vocab) malformed_tokenizer(where, "an object 'vocab'", "none");
  if (!reader.saw_merges) malformed_tokenizer(where, "a list 'merges'", "none");
  if (get_double_or(model, "dropout", 0, where) != 0) {
    unsupported_tokenizer(where, "no dropout", "dropout " + model["dropout"].dump());
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string text = get_string_or(model, key, "", where);
    if (!text.empty()) unsupported_tokenizer(where, fmt::format("no {}", key), "'" + text + "'");
  }
  out->bpe = reader.bpe;
  out->bpe.byte_fallback = get_bool_or(model, "byte_fallback", false, where);
  out->bpe.fuse_unk = get_bool_or(model, "fuse_unk", false, where);
  out->bpe.ignore_merges = get_bool_or(model, "ignore_merges", false, where);
  std::string unknown = get_string_or(model, "unk_token", "", where);
  if (!unknown.empty()) out->bpe.unk_token = unknown;
}

void read_added(const Json& root, const std::string& file, TokenizerFile* out) {
  Json list = list_of(root, "added_tokens", file);
  for (size_t i = 0; i < list.size(); ++i) {
    std::string where = fmt::format("{}, added_tokens[{}]", file, i);
    const Json& entry = list[i];
    AddedToken token;
    token.content = get_string(entry, "content", where);
    token.id = checked_id(where, token.content, get_int(entry, "id", where));
    token.single_word = get_bool_or(entry, "single_word", false, where);
    token.lstrip = get_bool_or(entry, "lstrip", false, where);
    token.rstrip = get_bool_or(entry, "rstrip", false, where);
    token.special = get_bool_or(entry, "special", false, where);
    token.normalized = get_bool_or(entry, "normalized", !token.special, where);
    out->added.push_back(std::move(token));
  }
}

// The ids of a special token that a template names.
std::vector<int32_t> template_ids(const Json& processor, const std::string& name,
                                  const std::string& where) {
  Json tokens = member(processor, "special_tokens", where);
  if (tokens.is_null() || !tokens.contains(name)) {
    malformed_tokenizer(where + ", special_tokens", "token '" + name + "'", "none");
  }
  std::vector<int32_t> ids;
  std::string here = where + ", special_tokens, " + name;
  for (const Json& id : list_of(member(tokens, name.c_str(), where), "ids", here)) {
    if (!id.is_number_integer()) malformed_tokenizer(here, "integer ids", id.dump());
    ids.push_back(checked_id(here, name, id.get<int64_t>()));
  }
  return ids;
}

void read_template(const Json& processor, const std::string& where, TokenizerFile* out) {
  bool behind = false;
  for (const Json& piece : list_of(processor, "single", where)) {
    if (piece.is_object() && piece.contains("Sequence")) {
      if (behind) unsupported_tokenizer(where, "one sequence in 'single'", "two");
      behind = true;
      continue;
    }
    if (!piece.is_object() || !piece.contains("SpecialToken")) {
      malformed_tokenizer(where + ", single", "SpecialToken or Sequence",
                          piece.dump().substr(0, 60));
    }
    std::string name = get_string(member(piece, "SpecialToken", where), "id", where);
    std::vector<int32_t> ids = template_ids(processor, name, where);
    std::vector<int32_t>& to = behind ? out->suffix : out->prefix;
    to.insert(to.end(), ids.begin(), ids.end());
  }
  if (!behind) malformed_tokenizer(where + ", single", "a Sequence", "none");
}

void read_post_processor(const Json& processor, const std::string& where, TokenizerFile* out) {
  if (processor.is_null()) return;
  std::string type = get_string(processor, "type", where);
  if (type == "ByteLevel") return;  // it moves offsets only
  if (type == "Sequence") {
    for (const Json& inner : list_of(processor, "processors", where)) {
      read_post_processor(inner, where, out);
    }
    return;
  }
  if (type != "TemplateProcessing") {
    unsupported_tokenizer(where, "TemplateProcessing, ByteLevel or a Sequence of them", type);
  }
  bool first = out->prefix.empty() && out->suffix.empty();
  if (!first) unsupported_tokenizer(where, "one TemplateProcessing", "two");
  read_template(processor, where, out);
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& where) {
  Reader reader(where);
  bool complete = Json::sax_parse(text.begin(), text.end(), &reader);
  if (!complete || !reader.root.is_object())
    malformed_tokenizer(where, "a JSON object", "something else");
  TokenizerFile out;
  const Json& root = reader.root;
  read_model(reader, where, &out);
  read_added(root, where, &out);
  out.normalizers = read_normalizer(member(root, "normalizer", where), where + ", normalizer");
  out.pre_tokenizer = member(root, "pre_tokenizer", where);
  out.spelling = read_decoder(member(root, "decoder", where), where + ", decoder");
  out.bpe.byte_level = out.spelling.byte_level;
  read_post_processor(member(root, "post_processor", where), where + ", post_processor", &out);
  return out;
}

}  // namespace strata::data
