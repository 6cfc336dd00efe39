#include "strata/data/jinja_text.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "strata/data/utf8.h"

namespace strata::data::jinja {
namespace {

uint32_t upper_point(uint32_t point) {
  std::string text;
  append_utf8(point, &text);
  std::string mapped = to_upper(text);
  size_t at = 0;
  return next_point(mapped, &at);
}

uint32_t lower_point(uint32_t point) {
  std::string text;
  append_utf8(point, &text);
  std::string mapped = to_lower(text);
  size_t at = 0;
  return next_point(mapped, &at);
}

// Whether the code point has an upper or lower form.
bool is_cased(uint32_t point) { return upper_point(point) != point || lower_point(point) != point; }

std::vector<MarkedText> split_blank(const MarkedText& text, int64_t most) {
  std::vector<MarkedText> out;
  const std::string& s = text.text();
  size_t i = 0;
  while (true) {
    size_t word = i;
    while (word < s.size()) {
      size_t next = word;
      if (!is_python_space(next_point(s, &next))) break;
      word = next;
    }
    if (word >= s.size()) return out;
    if (most >= 0 && static_cast<int64_t>(out.size()) == most) {
      out.push_back(strip(text.part(word, s.size()), Sides::right, std::nullopt));
      return out;
    }
    i = word;
    while (i < s.size()) {
      size_t next = i;
      if (is_python_space(next_point(s, &next))) break;
      i = next;
    }
    out.push_back(text.part(word, i));
  }
}

}  // namespace

size_t find_text(std::string_view text, std::string_view what, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const char* begin = text.data() + from;
  const void* hit = memmem(begin, text.size() - from, what.data(), what.size());
  if (hit == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

std::vector<size_t> point_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size();) {
    offsets.push_back(i);
    next_point(text, &i);
  }
  offsets.push_back(text.size());
  return offsets;
}

MarkedText strip(const MarkedText& text, Sides sides, std::optional<std::string_view> chars) {
  std::unordered_set<uint32_t> set;
  for (size_t i = 0; chars.has_value() && i < chars->size();) set.insert(next_point(*chars, &i));
  auto gone = [&](uint32_t point) {
    return chars.has_value() ? set.count(point) > 0 : is_python_space(point);
  };
  const std::string& s = text.text();
  size_t begin = 0;
  size_t end = s.size();
  while (sides != Sides::right && begin < end) {
    size_t next = begin;
    if (!gone(next_point(s, &next))) break;
    begin = next;
  }
  while (sides != Sides::left && end > begin && gone(previous_point(s, end))) {
    do {
      --end;
    } while ((static_cast<uint8_t>(s[end]) & 0xc0) == 0x80);
  }
  return text.part(begin, end);
}

std::vector<MarkedText> split(const MarkedText& text, std::optional<std::string_view> separator,
                              int64_t most) {
  if (!separator.has_value()) return split_blank(text, most);
  std::vector<MarkedText> out;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(out.size()) < most) {
    size_t at = find_text(text.text(), *separator, begin);
    if (at == std::string::npos) break;
    out.push_back(text.part(begin, at));
    begin = at + separator->size();
  }
  out.push_back(text.part(begin, text.size()));
  return out;
}

std::vector<MarkedText> split_right(const MarkedText& text, std::string_view separator,
                                    int64_t most) {
  std::vector<MarkedText> out;
  size_t end = text.size();
  while (most < 0 || static_cast<int64_t>(out.size()) < most) {
    if (end < separator.size()) break;
    size_t at = text.text().rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    out.push_back(text.part(at + separator.size(), end));
    end = at;
  }
  out.push_back(text.part(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  std::vector<MarkedText> out;
  const std::string& s = text.text();
  for (size_t begin = 0; begin < s.size();) {
    size_t end = std::min(s.find_first_of("\r\n", begin), s.size());
    size_t next = end;
    if (next < s.size()) next += s.compare(next, 2, "\r\n") == 0 ? 2 : 1;
    out.push_back(text.part(begin, keep_ends ? next : end));
    begin = next;
  }
  return out;
}

MarkedText replace(const MarkedText& text, std::string_view old, const MarkedText& fresh,
                   int64_t most) {
  MarkedText out;
  size_t done = 0;
  int64_t count = 0;
  if (old.empty()) {
    // Python sets the new text around every character.
    for (size_t offset : point_offsets(text.text())) {
      out.append_part(text, done, offset);
      done = offset;
      if (most >= 0 && count++ >= most) break;
      out.append(fresh);
    }
    out.append_part(text, done, text.size());
    return out;
  }
  while (most < 0 || count++ < most) {
    size_t at = find_text(text.text(), old, done);
    if (at == std::string::npos) break;
    out.append_part(text, done, at);
    out.append(fresh);
    done = at + old.size();
  }
  out.append_part(text, done, text.size());
  return out;
}

std::vector<size_t> slice_indices(size_t size, std::optional<int64_t> start,
                                  std::optional<int64_t> stop, int64_t step) {
  auto n = static_cast<int64_t>(size);
  int64_t low = step > 0 ? 0 : -1;
  int64_t high = step > 0 ? n : n - 1;
  auto clip = [&](std::optional<int64_t> at, int64_t fallback) {
    if (!at.has_value()) return fallback;
    int64_t v = *at < 0 ? std::max(*at, -n - 1) + n : *at;
    return std::clamp(v, low, high);
  };
  int64_t from = clip(start, step > 0 ? low : high);
  int64_t to = clip(stop, step > 0 ? high : low);
  std::vector<size_t> out;
  // Steps beyond the size visit one index; clipping them keeps the sum in range.
  step = std::clamp(step, -n - 1, n + 1);
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
    out.push_back(static_cast<size_t>(i));
  }
  return out;
}

MarkedText slice(const MarkedText& text, std::optional<int64_t> start, std::optional<int64_t> stop,
                 int64_t step) {
  std::vector<size_t> offsets = point_offsets(text.text());
  std::vector<size_t> picked = slice_indices(offsets.size() - 1, start, stop, step);
  if (picked.empty()) return {};
  if (step == 1) return text.part(offsets[picked.front()], offsets[picked.back() + 1]);
  MarkedText out;
  for (size_t i : picked) out.append_part(text, offsets[i], offsets[i + 1]);
  return out;
}

MarkedText map_points(const MarkedText& text,
                      const std::function<uint32_t(uint32_t, uint32_t)>& map) {
  MarkedText out;
  uint32_t previous = 0;
  auto mark = text.marks().begin();
  for (size_t i = 0; i < text.size();) {
    while (mark != text.marks().end() && mark->end <= i) ++mark;
    bool marked = mark != text.marks().end() && mark->begin <= i;
    uint32_t point = next_point(text.text(), &i);
    std::string piece;
    append_utf8(map(point, previous), &piece);
    out.append(piece, marked ? mark->origin : kFromTemplate);
    previous = point;
  }
  return out;
}

MarkedText capitalize(const MarkedText& text) {
  bool first = true;
  return map_points(text, [&first](uint32_t point, uint32_t) {
    bool raise = first;
    first = false;
    return raise ? upper_point(point) : lower_point(point);
  });
}

MarkedText title(const MarkedText& text) {
  return map_points(text, [](uint32_t point, uint32_t previous) {
    return previous != 0 && is_cased(previous) ? lower_point(point) : upper_point(point);
  });
}

}  // namespace strata::data::jinja
