// Where the tests of this room find their data. Included by *_test.cc only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/testing/scratch_directory.h"

namespace strata::data {

inline std::filesystem::path data_path(const std::string& name) {
  return std::filesystem::path(STRATA_SOURCE_DIR) / "tests" / "testdata" / "data" / name;
}

// A file that is removed at the end of its scope.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, std::string_view text)
      : path_(scratch_.write(name, text)) {}
  const std::filesystem::path& path() const { return path_; }

 private:
  strata::testing::ScratchDirectory scratch_;
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
