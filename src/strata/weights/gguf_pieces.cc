#include "strata/weights/gguf_pieces.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace strata::weights {
namespace {

constexpr const char* kMark = "\xe2\x96\x81";

struct Merge {
  double score = 0;
  size_t whole = 0, left = 0, right = 0;
};

Json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

}  // namespace

Json merges_of_pieces(std::span<const std::string_view> tokens, std::span<const uint8_t> mergeable,
                      std::span<const double> scores) {
  std::unordered_map<std::string_view, size_t> pieces;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (mergeable[i] != 0) pieces.emplace(tokens[i], i);
  }
  std::vector<Merge> merges;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (mergeable[i] == 0) continue;
    for (size_t at = 1; at < tokens[i].size(); ++at) {
      auto left = pieces.find(tokens[i].substr(0, at));
      if (left == pieces.end()) continue;
      auto right = pieces.find(tokens[i].substr(at));
      if (right != pieces.end()) merges.push_back({scores[i], i, left->second, right->second});
    }
  }
  // Equal scores: the longer left part first, as transformers orders them.
  std::sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) {
    auto order = [&](const Merge& m) {
      auto left = std::ssize(tokens[m.left]), right = std::ssize(tokens[m.right]);
      return std::tuple(-m.score, -left, -right, m.whole);
    };
    return order(a) < order(b);
  });
  Json list = Json::array();
  for (const Merge& m : merges) {
    list.push_back(Json::array({std::string(tokens[m.left]), std::string(tokens[m.right])}));
  }
  return list;
}

Json pieces_normalizer(bool prefix) {
  Json to_marks = replace(" ", kMark);
  if (!prefix) return to_marks;
  Json prepend = {{"type", "Prepend"}, {"prepend", kMark}};
  return {{"type", "Sequence"}, {"normalizers", Json::array({prepend, to_marks})}};
}

Json pieces_decoder(bool prefix) {
  Json steps = Json::array({replace(kMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace strata::weights
