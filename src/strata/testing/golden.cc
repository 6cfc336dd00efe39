#include "strata/testing/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"

namespace strata::testing {

void expect_golden(std::string_view path, const std::string& text) {
  std::filesystem::path file = std::string(STRATA_SOURCE_DIR) + "/tests/testdata/";
  file += path;
  const char* update = std::getenv("STRATA_UPDATE_GOLDENS");
  if (update != nullptr && std::string_view(update) == "1") {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  std::string want = read_file(file);
  if (text == want) return;
  std::vector<std::string> got_lines = split(text, '\n'), want_lines = split(want, '\n');
  size_t line = 0;
  while (line < got_lines.size() && line < want_lines.size() &&
         got_lines[line] == want_lines[line]) {
    ++line;
  }
  auto at = [&](const std::vector<std::string>& lines) {
    return line < lines.size() ? lines[line] : std::string("(end of text)");
  };
  ADD_FAILURE() << path << ":" << line + 1 << "\n  golden: " << at(want_lines)
                << "\n  now:    " << at(got_lines)
                << "\nIf the change is meant, run again with STRATA_UPDATE_GOLDENS=1.";
}

}  // namespace strata::testing
