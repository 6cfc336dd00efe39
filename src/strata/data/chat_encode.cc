#include "strata/data/chat_encode.h"

#include <algorithm>
#include <optional>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::data {
namespace {

bool is_assistant(const Json& messages, size_t i) {
  return i < messages.size() && messages[i]["role"] == "assistant";
}

std::vector<ProtectedRange> ranges_of(const MarkedText& text, const Json& messages) {
  std::vector<ProtectedRange> ranges;
  for (const Mark& m : text.marks()) {
    bool ordinary = m.origin >= 0 && is_assistant(messages, static_cast<size_t>(m.origin));
    ranges.push_back({m.begin, m.end, ordinary});
  }
  return ranges;
}

// What the template puts before an answer to `messages`; empty when it puts nothing.
std::string prompt_suffix(const ChatTemplate& chat, const Json& messages,
                          const ChatOptions& options) {
  ChatOptions without = options;
  without.add_generation_prompt = false;
  ChatOptions with = options;
  with.add_generation_prompt = true;
  try {
    std::string shorter = chat.render(messages, without).text.text();
    std::string longer = chat.render(messages, with).text.text();
    bool extends = longer.compare(0, shorter.size(), shorter) == 0;
    return extends ? longer.substr(shorter.size()) : std::string();
  } catch (const Error&) {
    // Some templates refuse a conversation that is cut short.
    return {};
  }
}

// Finds which stretches of a rendered chat the assistant wrote.
class TurnFinder {
 public:
  TurnFinder(const Tokenizer& tokenizer, const RenderedChat& chat, std::string header,
             const std::vector<ProtectedRange>& ranges)
      : tokenizer_(tokenizer),
        chat_(chat),
        text_(chat.text.text()),
        header_(std::move(header)),
        added_(tokenizer.find_added(text_, ranges)) {}

  // The stretch of message `k`, from behind the header to the end of its turn; nothing when the
  // template wrote none of it.
  std::optional<ChatStretch> find(size_t k) const {
    std::optional<ChatStretch> turn = turn_of(k);
    std::optional<ChatStretch> content = marked(k);
    if (!turn.has_value()) turn = content;
    if (!turn.has_value()) return std::nullopt;
    size_t begin = body_begin(*turn, content);
    size_t written = std::max(begin, content.has_value() ? content->end : begin);
    return ChatStretch{begin, body_end(*turn, written)};
  }

 private:
  static void extend(std::optional<ChatStretch>* whole, size_t begin, size_t end) {
    if (!whole->has_value()) *whole = ChatStretch{begin, end};
    (*whole)->begin = std::min((*whole)->begin, begin);
    (*whole)->end = std::max((*whole)->end, end);
  }
  std::optional<ChatStretch> turn_of(size_t k) const {
    std::optional<ChatStretch> whole;
    for (const ChatTurn& t : chat_.turns) {
      if (t.message == k) extend(&whole, t.stretch.begin, t.stretch.end);
    }
    return whole;
  }
  std::optional<ChatStretch> marked(size_t k) const {
    std::optional<ChatStretch> whole;
    for (const Mark& m : chat_.text.marks()) {
      if (m.origin == static_cast<int32_t>(k)) extend(&whole, m.begin, m.end);
    }
    return whole;
  }
  size_t body_begin(const ChatStretch& turn, const std::optional<ChatStretch>& content) const {
    size_t limit = content.has_value() ? content->begin : turn.end;
    std::string_view head = std::string_view(text_).substr(turn.begin, limit - turn.begin);
    std::string_view bare = trim(header_);
    if (bare.empty()) return turn.begin;
    // The exact header; else without the white space around it, which some templates vary.
    for (std::string_view header : {std::string_view(header_), bare}) {
      size_t at = head.rfind(header);
      if (at != std::string_view::npos) return turn.begin + at + header.size();
    }
    return turn.begin + shared_head(head, turn.begin);
  }
  // The prompt may hold more than the header (an empty "<think>" block): what it shares with
  // `head`, back to the end of a line or of an added token.
  size_t shared_head(std::string_view head, size_t begin) const {
    size_t shared = 0;
    while (shared < std::min(head.size(), header_.size()) && head[shared] == header_[shared]) {
      ++shared;
    }
    size_t border = head.substr(0, shared).rfind('\n') + 1;  // npos + 1 = 0
    for (const TextPart& part : added_) {
      if (part.end > begin && part.end <= begin + shared)
        border = std::max(border, part.end - begin);
    }
    return border;
  }
  size_t body_end(const ChatStretch& turn, size_t written) const {
    for (const TextPart& part : added_) {
      bool ends = part.begin >= written && part.begin < turn.end;
      if (ends && tokenizer_.is_special(part.id)) return part.end;
    }
    return turn.end;
  }

  const Tokenizer& tokenizer_;
  const RenderedChat& chat_;
  const std::string& text_;
  std::string header_;
  std::vector<TextPart> added_;
};

std::vector<ChatStretch> assistant_stretches(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                             const Json& messages, const ChatOptions& options,
                                             const RenderedChat& rendered,
                                             const std::vector<ProtectedRange>& ranges) {
  size_t first = 0;
  while (first < messages.size() && !is_assistant(messages, first)) ++first;
  if (first == messages.size()) return {};
  Json prompt = Json::array();
  for (size_t i = 0; i < first; ++i) prompt.push_back(messages[i]);
  std::string header = prompt_suffix(chat, prompt, options);
  if (header.empty()) header = prompt_suffix(chat, messages, options);
  TurnFinder finder(tokenizer, rendered, header, ranges);
  std::vector<ChatStretch> found;
  for (size_t k = first; k < messages.size(); ++k) {
    if (!is_assistant(messages, k)) continue;
    ChatStretch stretch = finder.find(k).value_or(ChatStretch{0, 0});
    bool fresh = found.empty() || stretch.begin >= found.back().end;
    if (stretch.begin < stretch.end && fresh) found.push_back(stretch);
  }
  return found;
}

// Appends text [begin, end) as one piece.
void append_piece(const Tokenizer& tokenizer, const std::string& text, const ChatStretch& stretch,
                  const std::vector<ProtectedRange>& ranges, bool trained, EncodedChat* out) {
  if (stretch.begin >= stretch.end) return;
  std::vector<ProtectedRange> inner;
  for (const ProtectedRange& r : ranges) {
    if (r.end <= stretch.begin || r.begin >= stretch.end) continue;
    inner.push_back({std::max(r.begin, stretch.begin) - stretch.begin,
                     std::min(r.end, stretch.end) - stretch.begin, r.allow_ordinary});
  }
  std::string_view piece =
      std::string_view(text).substr(stretch.begin, stretch.end - stretch.begin);
  bool behind_token = !out->ids.empty() && tokenizer.is_special(out->ids.back());
  std::vector<int32_t> ids =
      tokenizer.encode_protected(piece, inner, stretch.begin > 0, behind_token);
  out->ids.insert(out->ids.end(), ids.begin(), ids.end());
  out->assistant.resize(out->ids.size(), trained ? 1 : 0);
}

}  // namespace

EncodedChat encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                        const ChatOptions& options, size_t first_trained) {
  RenderedChat rendered = chat.render(messages, options);
  const std::string& text = rendered.text.text();
  std::vector<ProtectedRange> ranges = ranges_of(rendered.text, messages);
  std::vector<ChatStretch> stretches = rendered.generated;
  if (stretches.empty()) {
    stretches = assistant_stretches(tokenizer, chat, messages, options, rendered, ranges);
  }
  // Turns that are not trained are cut off all the same, so that ids do not depend on the mask.
  size_t untrained = 0;
  for (const ChatTurn& t : rendered.turns) {
    if (t.message < first_trained) untrained = std::max(untrained, t.stretch.end);
  }
  for (const Mark& m : rendered.text.marks()) {
    bool before = m.origin >= 0 && static_cast<size_t>(m.origin) < first_trained;
    if (before) untrained = std::max(untrained, m.end);
  }
  EncodedChat out;
  out.text = text;
  size_t done = 0;
  for (const ChatStretch& s : stretches) {
    if (s.begin < done) continue;  // a {% generation %} inside another one
    append_piece(tokenizer, text, {done, s.begin}, ranges, false, &out);
    append_piece(tokenizer, text, s, ranges, s.begin >= untrained, &out);
    done = s.end;
  }
  append_piece(tokenizer, text, {done, text.size()}, ranges, false, &out);
  return out;
}

}  // namespace strata::data
