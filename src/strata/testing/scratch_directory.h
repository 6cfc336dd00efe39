// A directory for what one test writes. Tests run in parallel, a process for each, so no name may
// be fixed: the system picks one that nobody has.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/file.h"

namespace strata::testing {

// A new, empty directory, removed with all it holds at the end of the object's life. Header only,
// so that a test of any room may use it without linking room testing.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::path(::testing::TempDir()) / "strata-").string() +
                       std::string(6, 'X');  // what mkdtemp fills in
    EXPECT_NE(::mkdtemp(name.data()), nullptr) << name;
    path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  // Writes a file of this directory; its path.
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    std::filesystem::path path = path_ / name;
    write_file_atomically(path, text);
    return path;
  }
  // Names of what is in it, sorted; hidden files too.
  std::vector<std::string> entries() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      out.push_back(entry.path().filename().string());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace strata::testing
