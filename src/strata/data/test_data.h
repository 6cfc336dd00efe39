// Where the tests of this room find their data. Included by *_test.cc only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata::data {

inline std::filesystem::path data_path(const std::string& name) {
  return std::filesystem::path(STRATA_SOURCE_DIR) / "tests" / "testdata" / "data" / name;
}

// A file of the temporary directory that is removed at the end of its scope.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, std::string_view text)
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("strata_data_" + std::to_string(::getpid()) + "_" + name)) {
    write_file_atomically(path_, text);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Runs `action` and returns the Error that it throws; an Error with id "nothing thrown" when it
// throws none.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::unknown, "nothing thrown", "nothing thrown");
}

}  // namespace strata::data
