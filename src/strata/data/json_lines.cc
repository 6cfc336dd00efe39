#include "strata/data/json_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::data {

JsonLines::JsonLines(const std::filesystem::path& path) : file_(path) {
  std::string_view all(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size());
  uint64_t number = 0;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = std::min(all.find('\n', begin), all.size());
    ++number;
    if (!trim(all.substr(begin, end - begin)).empty()) lines_.push_back({begin, number});
    begin = end + 1;
  }
  require(!lines_.empty(), {.id = "dataset.empty",
                            .where = path.string(),
                            .expected = "at least one line of JSON",
                            .got = "none"});
}

std::string JsonLines::where(size_t index) const {
  return fmt::format("{}:{}", file_.path().string(), lines_.at(index).number);
}

std::string_view JsonLines::text(size_t index) const {
  std::string_view all(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size());
  uint64_t begin = lines_.at(index).offset;
  return trim(all.substr(begin, all.find('\n', begin) - begin));
}

Json JsonLines::read(size_t index) const {
  Json line = parse_json(text(index), where(index));
  if (!line.is_object()) {
    fail({.id = "dataset.line",
          .where = where(index),
          .expected = "a JSON object",
          .got = line.type_name()});
  }
  return line;
}

}  // namespace strata::data
