// A temporary directory of small files; used by tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata::sample {

class Directory {
 public:
  Directory() {
    std::string pattern = ::testing::TempDir() + "/strata_sample_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { std::filesystem::remove_all(path_); }

  std::filesystem::path write_text(const std::string& name, std::string_view text) const {
    write_file_atomically(path_ / name, text);
    return path_ / name;
  }
  void write(const std::string& name, const Json& json) const { write_text(name, json.dump()); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace strata::sample
