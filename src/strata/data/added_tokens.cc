#include "strata/data/added_tokens.h"

#include <algorithm>

#include "strata/data/utf8.h"

namespace strata::data {
namespace {

bool word_before(std::string_view text, size_t position) {
  return position > 0 && is_word(previous_point(text, position));
}

bool word_at(std::string_view text, size_t position) {
  return position < text.size() && is_word(next_point(text, &position));
}

size_t strip_left(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit && is_white_space(previous_point(text, begin))) {
    do {
      --begin;
    } while ((static_cast<uint8_t>(text[begin]) & 0xc0) == 0x80);
  }
  return begin;
}

size_t strip_right(std::string_view text, size_t end) {
  while (end < text.size()) {
    size_t next = end;
    if (!is_white_space(next_point(text, &next))) break;
    end = next;
  }
  return end;
}

bool allowed(const AddedToken& token, size_t begin, size_t end, const MatchRules& rules) {
  auto first = std::upper_bound(rules.ranges.begin(), rules.ranges.end(), begin,
                                [](size_t at, const ProtectedRange& r) { return at < r.end; });
  for (; first != rules.ranges.end() && first->begin < end; ++first) {
    if (token.special || !first->allow_ordinary) return false;
  }
  return true;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token, std::string_view pattern) {
  if (pattern.empty()) return;
  int32_t node = 0;
  for (char c : pattern) {
    uint64_t key = static_cast<uint64_t>(node) * 256 + static_cast<uint8_t>(c);
    auto [it, fresh] = children_.emplace(key, static_cast<int32_t>(token_of_node_.size()));
    if (fresh) token_of_node_.push_back(-1);
    node = it->second;
  }
  token_of_node_[static_cast<size_t>(node)] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  begins_[static_cast<uint8_t>(pattern[0])] = true;
}

int32_t AddedTokenMatcher::child(int32_t node, char byte) const {
  auto it = children_.find(static_cast<uint64_t>(node) * 256 + static_cast<uint8_t>(byte));
  return it == children_.end() ? -1 : it->second;
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::string_view text, size_t begin,
                                                       const MatchRules& rules) const {
  Match best;
  int32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node < 0) break;
    int32_t index = token_of_node_[static_cast<size_t>(node)];
    if (index < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    if (allowed(token, begin, i + 1, rules)) best = {i + 1, &token};
  }
  return best;
}

std::vector<TextPart> AddedTokenMatcher::cut(std::string_view text, const MatchRules& rules) const {
  std::vector<TextPart> parts;
  size_t done = 0;
  for (size_t i = 0; !tokens_.empty() && i < text.size();) {
    if (!begins_[static_cast<uint8_t>(text[i])]) {
      ++i;
      continue;
    }
    Match match = longest_at(text, i, rules);
    if (match.token == nullptr) {
      ++i;
      continue;
    }
    size_t begin = i;
    i = match.end;
    const AddedToken& token = *match.token;
    if (token.special && rules.plain) continue;
    if (token.single_word && (word_before(text, begin) || word_at(text, match.end))) continue;
    if (token.lstrip) begin = strip_left(text, begin, done);
    size_t end = token.rstrip ? strip_right(text, match.end) : match.end;
    if (done < begin) parts.push_back({done, begin});
    parts.push_back({begin, end, token.id});
    // As in HF, white space that was swallowed may still be an added token of its own.
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size()});
  return parts;
}

}  // namespace strata::data
