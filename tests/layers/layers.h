// The rules on who may include what, as data, and their check against a tree of sources.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace strata::layers {

// A source below src/strata: "ops/control.cc" and its text.
struct SourceFile {
  std::string path;
  std::string text;
};

// A broken rule. `line` is 0 where the whole file breaks it.
struct Finding {
  std::string file;
  int line = 0;
  std::string rule;

  // "src/strata/ops/control.cc:12: rule".
  std::string text() const;
};

struct Rules {
  // room → rooms it may include, base and itself left out.
  std::map<std::string, std::set<std::string>> rooms;
  // header prefix → rooms ("tests" = every test file, as below).
  std::map<std::string, std::set<std::string>> headers;
};

// Reads rooms.txt and headers.txt of `directory`. Throws invalid_argument naming file and line.
Rules read_rules(const std::filesystem::path& directory);

// All .h and .cc files below `root`, in order of their paths.
std::vector<SourceFile> read_sources(const std::filesystem::path& root);

// Every broken rule in order of files and lines. Test files are *_test.cc, *_for_test.h (or .cc)
// and test_*.
//
// - an include of a room that the table does not allow, or of a foreign header kept to other rooms;
// - a quoted include that is neither "strata/room/file" nor a foreign header of the table;
// - an include of a header for tests by anything else;
// - a room without a row in the table;
// - a file of more than 600 lines;
// - a file of models/ (tests apart) that speaks of scanning or stacked axes.
std::vector<Finding> check(const std::vector<SourceFile>& files, const Rules& rules);

}  // namespace strata::layers
