// Text that remembers who wrote each part of it: the template, or a message.
//
// A chat template mixes its own markers with what users and models wrote. Only the template's own
// text may become control tokens, and only an assistant's text is trained on; so every operation
// of the template's interpreter keeps the marks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::data {

// Who wrote a stretch: the index of a message (>= 0), or one of these.
inline constexpr int32_t kFromTemplate = -1;
inline constexpr int32_t kFromOutside = -2;  // tools and other data of the caller

// A stretch that the template did not write, in bytes.
struct Mark {
  size_t begin = 0;
  size_t end = 0;
  int32_t origin = kFromOutside;
  bool operator==(const Mark&) const = default;
};

class MarkedText {
 public:
  // No text grows beyond this.
  static constexpr size_t kMaxBytes = size_t{1} << 26;

  MarkedText() = default;
  explicit MarkedText(std::string text, int32_t origin = kFromTemplate);

  const std::string& text() const { return text_; }
  // Sorted, disjoint, not empty.
  const std::vector<Mark>& marks() const { return marks_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  // The origin of the first marked stretch, or kFromTemplate.
  int32_t origin() const { return marks_.empty() ? kFromTemplate : marks_.front().origin; }

  // Throw resource_exhausted (id "chat_template.limit") beyond kMaxBytes.
  void append(std::string_view text, int32_t origin = kFromTemplate);
  void append(const MarkedText& other) { append_part(other, 0, other.size()); }
  // Appends bytes [begin, end) of `other`, which is not this text.
  void append_part(const MarkedText& other, size_t begin, size_t end);

  MarkedText part(size_t begin, size_t end) const;
  // Applies `map` to each stretch of one origin.
  MarkedText mapped(std::string (*map)(std::string_view)) const;

 private:
  std::string text_;
  std::vector<Mark> marks_;
};

}  // namespace strata::data
