// Random access to the lines of a JSONL file without holding it in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata::data {

// Maps the file and keeps where its lines begin (16 bytes a line). Blank lines are not counted.
// Thread-safe for reading; the file must not change meanwhile.
class JsonLines {
 public:
  // Throws as read_file; invalid_argument (id "dataset.empty") when there is no line.
  explicit JsonLines(const std::filesystem::path& path);

  size_t size() const { return lines_.size(); }
  // "path:line", the line counted from 1 as an editor does.
  std::string where(size_t index) const;
  std::string_view text(size_t index) const;
  // Parses the line into an object. Throws data_loss or invalid_argument naming `where`.
  Json read(size_t index) const;

 private:
  struct Line {
    uint64_t offset = 0;
    uint64_t number = 0;
  };
  MappedFile file_;
  std::vector<Line> lines_;
};

}  // namespace strata::data
