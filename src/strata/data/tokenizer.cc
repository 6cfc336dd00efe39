#include "strata/data/tokenizer.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"
#include "strata/data/bpe.h"
#include "strata/data/pre_tokenizer.h"
#include "strata/data/sentencepiece_model.h"
#include "strata/data/tokenizer_file.h"
#include "strata/data/utf8.h"

namespace strata::data {

namespace fs = std::filesystem;

struct Tokenizer::Model {
  // Exactly one of the two engines.
  std::optional<Bpe> bpe;
  std::optional<PreTokenizer> pre_tokenizer;
  std::optional<SentencePieceModel> sentencepiece;

  std::vector<NormalStep> normalizers;
  Spelling spelling;
  AddedTokenMatcher raw_tokens;         // found in the text as it came
  AddedTokenMatcher normalized_tokens;  // found in the normalized text
  std::unordered_map<std::string, int32_t> added_ids;
  std::unordered_set<int32_t> special_ids;
  std::unordered_set<int32_t> byte_ids;  // tokens spelled as a byte, "<0x0A>"
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  std::vector<std::optional<std::string>> bytes_of_id;

  void set_bytes(int32_t id, std::string bytes);
  void add_tokens(const std::vector<AddedToken>& tokens);
  void encode(std::string_view text, const MatchRules& rules, std::vector<int32_t>* ids) const;
  void encode_stretch(std::string_view text, const MatchRules& rules,
                      std::vector<int32_t>* ids) const;
  void encode_by_range(std::string_view text, const MatchRules& rules,
                       std::vector<int32_t>* ids) const;
  std::optional<std::vector<ProtectedRange>> ranges_in(std::string_view changed,
                                                       std::string_view text,
                                                       const MatchRules& rules) const;
  void encode_normalized(std::string_view text, const MatchRules& rules,
                         std::vector<int32_t>* ids) const;
  void encode_words(std::string_view text, Before before, std::vector<int32_t>* ids) const;
};

namespace {

class BpeSink : public PreTokenizer::Sink {
 public:
  BpeSink(const Bpe& bpe, std::vector<int32_t>* ids) : bpe_(bpe), ids_(ids) {}
  void take(std::string_view word) override { bpe_.encode(word, ids_); }

 private:
  const Bpe& bpe_;
  std::vector<int32_t>* ids_;
};

fs::path file_in(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (fs::exists(path / name, ec)) return path / name;
  }
  fail({.id = "tokenizer.not_found",
        .where = path.string(),
        .expected = "a tokenizer.json or tokenizer.model",
        .got = "neither",
        .cure = "Copy the model's tokenizer files into the directory",
        .code = Code::not_found});
}

// The parts of `ranges` that fall into [begin, end), counted from `begin`.
std::vector<ProtectedRange> ranges_within(std::span<const ProtectedRange> ranges, size_t begin,
                                          size_t end) {
  std::vector<ProtectedRange> out;
  for (const ProtectedRange& r : ranges) {
    if (r.end <= begin || r.begin >= end) continue;
    out.push_back(
        {std::max(r.begin, begin) - begin, std::min(r.end, end) - begin, r.allow_ordinary});
  }
  return out;
}

}  // namespace

void Tokenizer::Model::set_bytes(int32_t id, std::string bytes) {
  auto index = static_cast<size_t>(id);
  if (index >= bytes_of_id.size()) bytes_of_id.resize(index + 1);
  bytes_of_id[index] = std::move(bytes);
}

void Tokenizer::Model::add_tokens(const std::vector<AddedToken>& tokens) {
  for (AddedToken token : tokens) {
    // A text that the vocabulary knows keeps its id there, whatever the entry says, as in HF.
    std::optional<int32_t> known;
    if (bpe.has_value()) known = bpe->find(token.content);
    token.id = known.value_or(token.id);
    added_ids[token.content] = token.id;
    if (token.special) special_ids.insert(token.id);
    std::string pattern = token.content;
    if (token.normalized) pattern = normalized(pattern, normalizers, Before::nothing);
    if (!known.has_value()) {
      set_bytes(token.id, spelling.byte_level ? pattern : spelling.bytes_of(pattern));
    }
    (token.normalized ? normalized_tokens : raw_tokens).add(token, pattern);
  }
}

void Tokenizer::Model::encode_words(std::string_view text, Before before,
                                    std::vector<int32_t>* ids) const {
  if (sentencepiece.has_value()) {
    sentencepiece->encode(text, ids);
    return;
  }
  BpeSink sink(*bpe, ids);
  pre_tokenizer->cut(text, before, &sink);
}

// Where the ranges of `text` stand in `changed`, its normalized form; nothing when a border falls
// into what normalization joins.
std::optional<std::vector<ProtectedRange>> Tokenizer::Model::ranges_in(
    std::string_view changed, std::string_view text, const MatchRules& rules) const {
  std::vector<ProtectedRange> out;
  for (const ProtectedRange& r : rules.ranges) {
    std::string before = normalized(text.substr(0, r.begin), normalizers, rules.before);
    std::string with = normalized(text.substr(0, r.end), normalizers, rules.before);
    if (!changed.starts_with(before) || !changed.starts_with(with)) return std::nullopt;
    out.push_back({before.size(), with.size(), r.allow_ordinary});
  }
  return out;
}

// Where that cannot be said, the text is cut at the ranges' borders and each part normalized alone.
void Tokenizer::Model::encode_by_range(std::string_view text, const MatchRules& rules,
                                       std::vector<int32_t>* ids) const {
  size_t done = 0;
  auto piece = [&](size_t end, const ProtectedRange* range) {
    if (done == end) return;
    Before before = done == 0 ? rules.before : Before::text;
    std::string part = normalized(text.substr(done, end - done), normalizers, before);
    ProtectedRange whole{0, part.size(), range != nullptr && range->allow_ordinary};
    std::span<const ProtectedRange> ranges(&whole, range == nullptr ? 0 : 1);
    encode_normalized(part, {rules.plain, ranges, before}, ids);
    done = end;
  };
  for (const ProtectedRange& r : rules.ranges) {
    piece(r.begin, nullptr);
    piece(r.end, &r);
  }
  piece(text.size(), nullptr);
}

void Tokenizer::Model::encode_normalized(std::string_view text, const MatchRules& rules,
                                         std::vector<int32_t>* ids) const {
  for (const TextPart& part : normalized_tokens.cut(text, rules)) {
    if (part.id >= 0) {
      ids->push_back(part.id);
    } else {
      Before before = part.begin == 0 ? rules.before : Before::token;
      encode_words(text.substr(part.begin, part.end - part.begin), before, ids);
    }
  }
}

// A stretch between raw added tokens.
void Tokenizer::Model::encode_stretch(std::string_view text, const MatchRules& rules,
                                      std::vector<int32_t>* ids) const {
  if (normalizers.empty()) return encode_normalized(text, rules, ids);
  std::string changed = normalized(text, normalizers, rules.before);
  bool moved = changed != text;
  if (!moved || rules.ranges.empty() || normalized_tokens.empty()) {
    return encode_normalized(changed, rules, ids);
  }
  std::optional<std::vector<ProtectedRange>> ranges = ranges_in(changed, text, rules);
  if (!ranges.has_value()) return encode_by_range(text, rules, ids);
  encode_normalized(changed, {rules.plain, *ranges, rules.before}, ids);
}

void Tokenizer::Model::encode(std::string_view text, const MatchRules& rules,
                              std::vector<int32_t>* ids) const {
  for (const TextPart& part : raw_tokens.cut(text, rules)) {
    if (part.id >= 0) {
      ids->push_back(part.id);
      continue;
    }
    std::vector<ProtectedRange> inner = ranges_within(rules.ranges, part.begin, part.end);
    Before before = part.begin == 0 ? rules.before : Before::token;
    encode_stretch(text.substr(part.begin, part.end - part.begin), {rules.plain, inner, before},
                   ids);
  }
}

Tokenizer Tokenizer::load(const fs::path& path) {
  fs::path file = file_in(path);
  if (file.extension() != ".model") return from_json(read_file(file), file.string());
  auto model = std::make_shared<Model>();
  model->sentencepiece.emplace(file);
  const SentencePieceModel& sp = *model->sentencepiece;
  for (int32_t id = 0; id < sp.size(); ++id) model->set_bytes(id, sp.bytes(id));
  model->add_tokens(sp.control_tokens());
  if (sp.bos_id() >= 0) model->prefix.push_back(sp.bos_id());
  return Tokenizer(std::move(model));
}

Tokenizer Tokenizer::from_json(std::string_view text, const std::string& where) {
  TokenizerFile file = parse_tokenizer_file(text, where);
  auto model = std::make_shared<Model>();
  model->pre_tokenizer.emplace(file.pre_tokenizer, where + ", pre_tokenizer",
                               file.spelling.byte_level);
  model->bpe.emplace(std::move(file.bpe), where + ", model");
  for (const auto& entry : model->bpe->vocab()) {
    model->set_bytes(entry.second, file.spelling.bytes_of(entry.first));
    if (file.spelling.is_byte(entry.first)) model->byte_ids.insert(entry.second);
  }
  model->normalizers = std::move(file.normalizers);
  model->spelling = file.spelling;
  model->add_tokens(file.added);
  model->prefix = std::move(file.prefix);
  model->suffix = std::move(file.suffix);
  return Tokenizer(std::move(model));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = model_->prefix;
  MatchRules rules{options.plain, {}};
  if (is_utf8(text)) {
    model_->encode(text, rules, &ids);
  } else {
    model_->encode(to_valid_utf8(text), rules, &ids);
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), model_->suffix.begin(), model_->suffix.end());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::encode_protected(std::string_view text,
                                                 std::span<const ProtectedRange> ranges,
                                                 bool continues, bool behind_token) const {
  require(is_utf8(text), {.id = "tokenizer.protected_utf8",
                          .where = "encode_protected",
                          .expected = "well-formed UTF-8",
                          .got = "other bytes"});
  std::vector<int32_t> ids;
  bool piece_prefix = model_->sentencepiece.has_value() && drops_leading_space();
  if (continues && piece_prefix && text.substr(0, 1) == " ") {
    std::vector<ProtectedRange> moved = ranges_within(ranges, 1, text.size());
    model_->encode(text.substr(1), {false, moved}, &ids);
  } else {
    Before before = behind_token ? Before::token : continues ? Before::text : Before::nothing;
    model_->encode(text, {false, ranges, before}, &ids);
  }
  return ids;
}

std::vector<TextPart> Tokenizer::find_added(std::string_view text,
                                            std::span<const ProtectedRange> ranges) const {
  std::vector<TextPart> found;
  for (const TextPart& part : model_->raw_tokens.cut(text, {false, ranges})) {
    if (part.id >= 0) {
      found.push_back(part);
      continue;
    }
    std::string_view stretch = text.substr(part.begin, part.end - part.begin);
    if (model_->normalized_tokens.empty() ||
        normalized(stretch, model_->normalizers, Before::text) != stretch) {
      continue;
    }
    std::vector<ProtectedRange> inner = ranges_within(ranges, part.begin, part.end);
    for (const TextPart& p : model_->normalized_tokens.cut(stretch, {false, inner})) {
      if (p.id >= 0) found.push_back({part.begin + p.begin, part.begin + p.end, p.id});
    }
  }
  return found;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  StreamDecoder decoder(*this, options);
  std::string text;
  for (int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(model_->bytes_of_id.size()); }

bool Tokenizer::has(int32_t id) const {
  return id >= 0 && id < vocab_size() && model_->bytes_of_id[static_cast<size_t>(id)].has_value();
}

bool Tokenizer::is_special(int32_t id) const { return model_->special_ids.count(id) > 0; }

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  auto it = model_->added_ids.find(std::string(token));
  if (it != model_->added_ids.end()) return it->second;
  if (model_->bpe.has_value()) return model_->bpe->find(token);
  const SentencePieceModel& sp = *model_->sentencepiece;
  for (int32_t id = 0; id < sp.size(); ++id) {
    if (sp.spelling(id) == token) return id;
  }
  return std::nullopt;
}

std::string_view Tokenizer::id_to_bytes(int32_t id) const {
  if (!has(id)) {
    fail({.id = "tokenizer.unknown_id",
          .where = "id_to_bytes",
          .expected = fmt::format("an id with a token, below {}", vocab_size()),
          .got = std::to_string(id),
          .code = Code::out_of_range});
  }
  return *model_->bytes_of_id[static_cast<size_t>(id)];
}

std::span<const int32_t> Tokenizer::prefix_ids() const { return model_->prefix; }

bool Tokenizer::drops_leading_space() const {
  if (!model_->sentencepiece.has_value()) return model_->spelling.first != FirstSpace::stays;
  return model_->sentencepiece->adds_prefix_space();
}

std::string_view Tokenizer::without_first_space(int32_t id, std::string* storage) const {
  std::string_view bytes = id_to_bytes(id);
  if (!model_->sentencepiece.has_value() && model_->spelling.first == FirstSpace::goes_in_token) {
    *storage = bytes;
    std::erase(*storage, ' ');
    return *storage;
  }
  if (drops_leading_space() && bytes.substr(0, 1) == " ") bytes.remove_prefix(1);
  return bytes;
}

bool Tokenizer::is_byte(int32_t id) const { return model_->byte_ids.count(id) > 0; }

bool Tokenizer::begins_text(int32_t id) const {
  // SentencePiece itself gives control tokens no text; in a tokenizer.json their text is text.
  return !model_->sentencepiece.has_value() || !is_special(id);
}

StreamDecoder::StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string StreamDecoder::push(int32_t id) {
  if (!tokenizer_.has(id)) return {};
  if (options_.skip_special && tokenizer_.is_special(id)) return {};
  std::string storage, text;
  std::string_view bytes = tokenizer_.id_to_bytes(id);
  if (at_start_ && tokenizer_.begins_text(id)) {
    at_start_ = false;
    bytes = tokenizer_.without_first_space(id, &storage);
  }
  if (tokenizer_.is_byte(id)) {
    byte_run_ += bytes;
    return {};
  }
  text = take_byte_run();
  pending_ += bytes;
  size_t done = 0;
  while (done < pending_.size()) {
    Utf8Step step = utf8_step(std::string_view(pending_).substr(done));
    if (step.kind == Utf8Step::Kind::truncated) break;
    done += step.length;
  }
  text += to_valid_utf8(std::string_view(pending_).substr(0, done));
  pending_.erase(0, done);
  return text;
}

// As in HF, a run of byte tokens is text as a whole or not at all.
std::string StreamDecoder::take_byte_run() {
  std::string run = std::move(byte_run_);
  byte_run_.clear();
  if (is_utf8(run)) return run;
  std::string text;
  for (size_t i = 0; i < run.size(); ++i) append_utf8(0xfffd, &text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = take_byte_run() + to_valid_utf8(pending_);
  pending_.clear();
  at_start_ = true;
  return text;
}

}  // namespace strata::data
