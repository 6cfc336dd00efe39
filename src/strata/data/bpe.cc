#include "strata/data/bpe.h"

#include <fmt/format.h>

#include <mutex>
#include <queue>
#include <unordered_map>

#include "strata/base/error.h"
#include "strata/base/hash.h"
#include "strata/data/text_rules.h"
#include "strata/data/utf8.h"

namespace strata::data {
namespace {

// Words longer than this are merged anew each time; the cache keeps at most this many words.
constexpr size_t kLongestCachedWord = 96;
constexpr size_t kCachedWordsPerShard = 8192;
constexpr size_t kShards = 16;

bool shows_itself(uint32_t b) {
  return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

struct Alphabet {
  std::array<uint32_t, 256> points{};
  std::unordered_map<uint32_t, uint8_t> bytes;
  Alphabet() {
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      points[b] = shows_itself(b) ? b : next++;
      bytes[points[b]] = static_cast<uint8_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

struct Rule {
  int32_t rank = 0;
  int32_t id = 0;
};

// A merge that was possible when it was queued; it may have become stale since.
struct Candidate {
  int32_t rank = 0;
  int64_t position = 0;
  int32_t id = 0;
  bool operator>(const Candidate& o) const {
    return rank != o.rank ? rank > o.rank : position > o.position;
  }
};

// One symbol of the doubly linked list that merging shrinks; -1 ends the list, id -1 is gone.
struct Symbol {
  int32_t id = -1;
  int64_t previous = -1;
  int64_t next = -1;
};

struct CacheShard {
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<int32_t>> words;
};

}  // namespace

uint32_t alphabet_point(uint8_t byte) { return alphabet().points[byte]; }

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  for (char c : bytes) append_utf8(alphabet_point(static_cast<uint8_t>(c)), &text);
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size();) {
    auto it = alphabet().bytes.find(next_point(text, &i));
    if (it == alphabet().bytes.end()) return std::nullopt;
    bytes.push_back(static_cast<char>(it->second));
  }
  return bytes;
}

struct Bpe::Tables {
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::unordered_map<std::string_view, int32_t> id_of;  // views into `vocab`
  std::unordered_map<uint64_t, Rule> rules;
  std::array<int32_t, 256> byte_ids{};  // of the alphabet's characters, or of "<0x0A>"; -1: none
  int32_t unknown = -1;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  bool byte_level = true;
  mutable std::array<CacheShard, kShards> cache;

  const Rule* rule(int32_t left, int32_t right) const {
    auto it = rules.find(pair_key(left, right));
    return it == rules.end() ? nullptr : &it->second;
  }
  void read_merges(const BpeData& data, const std::string& where);
  std::vector<int32_t> ids_of_bytes(std::string_view word) const;
  std::vector<int32_t> ids_of_characters(std::string_view word) const;
  bool add_byte_tokens(std::string_view character, std::vector<int32_t>* ids) const;
  std::vector<Symbol> symbols_of(std::string_view word) const;
};

void Bpe::Tables::read_merges(const BpeData& data, const std::string& where) {
  rules.reserve(data.merges.size());
  int32_t rank = 0;
  std::string joined;
  for (const auto& pair : data.merges) {
    joined.assign(pair.first).append(pair.second);
    auto left = id_of.find(pair.first);
    auto right = id_of.find(pair.second);
    auto whole = id_of.find(joined);
    if (left == id_of.end() || right == id_of.end() || whole == id_of.end()) {
      const std::string& missing = left == id_of.end()    ? pair.first
                                   : right == id_of.end() ? pair.second
                                                          : joined;
      fail(
          {.id = "tokenizer.merge",
           .where = fmt::format("{}, merge {} ('{}' + '{}')", where, rank, pair.first, pair.second),
           .expected = "both parts and their join in the vocabulary",
           .got = "no token '" + missing + "'",
           .code = Code::data_loss});
    }
    rules[pair_key(left->second, right->second)] = {rank, whole->second};
    ++rank;
  }
}

std::vector<int32_t> Bpe::Tables::ids_of_bytes(std::string_view word) const {
  std::vector<int32_t> ids;
  ids.reserve(word.size());
  bool last_unknown = false;
  for (char c : word) {
    int32_t id = byte_ids[static_cast<uint8_t>(c)];
    bool is_unknown = id < 0;
    if (is_unknown) id = unknown;
    bool fused = is_unknown && last_unknown && fuse_unknown;
    last_unknown = is_unknown;
    if (id >= 0 && !fused) ids.push_back(id);
  }
  return ids;
}

// Nothing is added when one of the bytes has no token.
bool Bpe::Tables::add_byte_tokens(std::string_view character, std::vector<int32_t>* ids) const {
  for (char c : character) {
    if (byte_ids[static_cast<uint8_t>(c)] < 0) return false;
  }
  for (char c : character) ids->push_back(byte_ids[static_cast<uint8_t>(c)]);
  return true;
}

// As HF does it, an unknown token is held back until the next character of the vocabulary: bytes
// that come between the two overtake it.
std::vector<int32_t> Bpe::Tables::ids_of_characters(std::string_view word) const {
  std::vector<int32_t> ids;
  bool held = false;
  for (size_t i = 0; i < word.size();) {
    size_t begin = i;
    next_point(word, &i);
    std::string_view character = word.substr(begin, i - begin);
    auto known = id_of.find(character);
    if (known == id_of.end()) {
      if (add_byte_tokens(character, &ids)) continue;
      if (held && !fuse_unknown) ids.push_back(unknown);
      held = unknown >= 0;
      continue;
    }
    if (held) ids.push_back(unknown);
    held = false;
    ids.push_back(known->second);
  }
  if (held) ids.push_back(unknown);
  return ids;
}

std::vector<Symbol> Bpe::Tables::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (int32_t id : byte_level ? ids_of_bytes(word) : ids_of_characters(word)) {
    symbols.push_back(
        {id, static_cast<int64_t>(symbols.size()) - 1, static_cast<int64_t>(symbols.size()) + 1});
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

Bpe::Bpe(BpeData data, const std::string& where) : tables_(std::make_unique<Tables>()) {
  Tables& t = *tables_;
  t.vocab = std::move(data.vocab);
  t.id_of.reserve(t.vocab.size());
  for (const auto& entry : t.vocab) t.id_of[entry.first] = entry.second;
  t.fuse_unknown = data.fuse_unk;
  t.ignore_merges = data.ignore_merges;
  t.byte_level = data.byte_level;
  t.byte_ids.fill(-1);
  for (uint32_t b = 0; b < 256 && (data.byte_level || data.byte_fallback); ++b) {
    char byte = static_cast<char>(b);
    std::string name =
        data.byte_level ? to_alphabet({&byte, 1}) : byte_token(static_cast<uint8_t>(b));
    t.byte_ids[b] = find(name).value_or(-1);
  }
  if (data.unk_token.has_value()) {
    std::optional<int32_t> id = find(*data.unk_token);
    require(id.has_value(), {.id = "tokenizer.unk_token",
                             .where = where + ", key 'unk_token'",
                             .expected = "a token of the vocabulary",
                             .got = "'" + *data.unk_token + "'",
                             .code = Code::data_loss});
    t.unknown = *id;
  }
  t.read_merges(data, where);
}

Bpe::Bpe(Bpe&&) noexcept = default;
Bpe& Bpe::operator=(Bpe&&) noexcept = default;
Bpe::~Bpe() = default;

std::optional<int32_t> Bpe::find(std::string_view spelled) const {
  auto it = tables_->id_of.find(spelled);
  if (it == tables_->id_of.end()) return std::nullopt;
  return it->second;
}

const std::vector<std::pair<std::string, int32_t>>& Bpe::vocab() const { return tables_->vocab; }

void Bpe::merge(std::string_view word, std::vector<int32_t>* ids) const {
  const Tables& t = *tables_;
  std::vector<Symbol> symbols = t.symbols_of(word);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  auto offer = [&](int64_t position) {
    if (position < 0) return;
    const Symbol& left = symbols[static_cast<size_t>(position)];
    if (left.next < 0) return;
    const Rule* rule = t.rule(left.id, symbols[static_cast<size_t>(left.next)].id);
    if (rule != nullptr) queue.push({rule->rank, position, rule->id});
  };
  for (size_t i = 0; i < symbols.size(); ++i) offer(static_cast<int64_t>(i));
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(best.position)];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Rule* rule = t.rule(left.id, right.id);
    if (rule == nullptr || rule->id != best.id) continue;  // stale
    left.id = best.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
  for (const Symbol& s : symbols) {
    if (s.id >= 0) ids->push_back(s.id);
  }
}

void Bpe::encode(std::string_view word, std::vector<int32_t>* ids) const {
  const Tables& t = *tables_;
  if (t.byte_level && word.size() == 1 && t.byte_ids[static_cast<uint8_t>(word[0])] >= 0) {
    ids->push_back(t.byte_ids[static_cast<uint8_t>(word[0])]);
    return;
  }
  bool cacheable = word.size() <= kLongestCachedWord;
  CacheShard& shard = t.cache[hash64(word) % kShards];
  std::string key;
  if (cacheable) {
    key = std::string(word);
    std::lock_guard<std::mutex> lock(shard.mutex);
    auto it = shard.words.find(key);
    if (it != shard.words.end()) {
      ids->insert(ids->end(), it->second.begin(), it->second.end());
      return;
    }
  }
  size_t before = ids->size();
  std::optional<int32_t> whole;
  if (t.ignore_merges) whole = t.byte_level ? find(to_alphabet(word)) : find(word);
  if (whole.has_value()) {
    ids->push_back(*whole);
  } else {
    merge(word, ids);
  }
  if (!cacheable) return;
  std::lock_guard<std::mutex> lock(shard.mutex);
  if (shard.words.size() >= kCachedWordsPerShard) shard.words.clear();
  shard.words.emplace(std::move(key), std::vector<int32_t>(
                                          ids->begin() + static_cast<int64_t>(before), ids->end()));
}

}  // namespace strata::data
