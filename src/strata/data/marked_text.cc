#include "strata/data/marked_text.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::data {

MarkedText::MarkedText(std::string text, int32_t origin) {
  if (origin == kFromTemplate) {
    text_ = std::move(text);
  } else {
    append(text, origin);
  }
}

void MarkedText::append(std::string_view text, int32_t origin) {
  if (text.empty()) return;
  if (text.size() > kMaxBytes || text_.size() + text.size() > kMaxBytes) {
    fail({.id = "chat_template.limit",
          .where = "chat template",
          .expected = "at most " + bytes_text(kMaxBytes) + " of text",
          .got = "more",
          .cure = "Shorten the messages or give rendered text",
          .code = Code::resource_exhausted});
  }
  size_t begin = text_.size();
  text_ += text;
  if (origin == kFromTemplate) return;
  if (!marks_.empty() && marks_.back().end == begin && marks_.back().origin == origin) {
    marks_.back().end = text_.size();
  } else {
    marks_.push_back({begin, text_.size(), origin});
  }
}

void MarkedText::append_part(const MarkedText& other, size_t begin, size_t end) {
  std::string_view text = other.text_;
  auto mark = std::upper_bound(other.marks_.begin(), other.marks_.end(), begin,
                               [](size_t at, const Mark& m) { return at < m.end; });
  for (; mark != other.marks_.end() && mark->begin < end; ++mark) {
    if (begin < mark->begin) append(text.substr(begin, mark->begin - begin));
    begin = std::max(begin, mark->begin);
    size_t stop = std::min(end, mark->end);
    append(text.substr(begin, stop - begin), mark->origin);
    begin = stop;
  }
  if (begin < end) append(text.substr(begin, end - begin));
}

MarkedText MarkedText::part(size_t begin, size_t end) const {
  MarkedText out;
  out.append_part(*this, begin, end);
  return out;
}

MarkedText MarkedText::mapped(std::string (*map)(std::string_view)) const {
  MarkedText out;
  size_t done = 0;
  std::string_view text = text_;
  for (const Mark& m : marks_) {
    out.append(map(text.substr(done, m.begin - done)));
    out.append(map(text.substr(m.begin, m.end - m.begin)), m.origin);
    done = m.end;
  }
  out.append(map(text.substr(done)));
  return out;
}

}  // namespace strata::data
