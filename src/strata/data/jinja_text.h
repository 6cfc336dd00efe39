// Python's string functions on marked text, shared by filters and methods. Positions count code
// points, as in Python.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/data/marked_text.h"

namespace strata::data::jinja {

// Position of `what` at or behind `from`, npos if there is none. Time is linear whatever the texts.
size_t find_text(std::string_view text, std::string_view what, size_t from);

// Byte offset of every code point, and of the end.
std::vector<size_t> point_offsets(std::string_view text);

enum class Sides { both, left, right };
// str.strip: takes away the characters of `chars`, or white space.
MarkedText strip(const MarkedText& text, Sides sides, std::optional<std::string_view> chars);

// str.split; `separator` is not empty, none means runs of white space. `most` < 0: no limit.
std::vector<MarkedText> split(const MarkedText& text, std::optional<std::string_view> separator,
                              int64_t most);
// str.rsplit with a separator; searching from the right costs the product of both lengths.
std::vector<MarkedText> split_right(const MarkedText& text, std::string_view separator,
                                    int64_t most);
// str.splitlines.
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);

// str.replace; `most` < 0: all.
MarkedText replace(const MarkedText& text, std::string_view old, const MarkedText& fresh,
                   int64_t most);

// text[start:stop:step]; `step` is not 0.
MarkedText slice(const MarkedText& text, std::optional<int64_t> start, std::optional<int64_t> stop,
                 int64_t step);
// The indices that a slice of a sequence of `size` visits.
std::vector<size_t> slice_indices(size_t size, std::optional<int64_t> start,
                                  std::optional<int64_t> stop, int64_t step);

// Applies `map(point, previous point or 0)` to every code point.
MarkedText map_points(const MarkedText& text,
                      const std::function<uint32_t(uint32_t, uint32_t)>& map);
MarkedText capitalize(const MarkedText& text);
// str.title.
MarkedText title(const MarkedText& text);

}  // namespace strata::data::jinja
