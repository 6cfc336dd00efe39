#include "layers/layers.h"

#include <gtest/gtest.h>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/testing/scratch_directory.h"

namespace strata::layers {
namespace {

const std::filesystem::path kRoot = STRATA_SOURCE_DIR;

Rules rules() { return read_rules(kRoot / "tests" / "layers"); }

std::vector<std::string> findings_of(const std::string& path, const std::string& text) {
  std::vector<std::string> texts;
  for (const Finding& f : check({{path, text}}, rules())) texts.push_back(f.text());
  return texts;
}

std::string include(const std::string& header) { return "#include \"" + header + "\"\n"; }

TEST(LayersTest, TheTreeKeepsItsLayers) {
  std::vector<SourceFile> files = read_sources(kRoot / "src" / "strata");
  EXPECT_GT(files.size(), 20u);
  for (const Finding& f : check(files, rules())) ADD_FAILURE() << f.text();
}

// The table itself must leave an order in which the rooms can be built.
TEST(LayersTest, TheTableHasNoCycle) {
  std::map<std::string, std::set<std::string>> left = rules().rooms;
  while (!left.empty()) {
    auto ready = std::find_if(left.begin(), left.end(), [&](const auto& row) {
      return std::none_of(row.second.begin(), row.second.end(), [&](const std::string& room) {
        return room != row.first && left.count(room) > 0;
      });
    });
    ASSERT_NE(ready, left.end()) << "a cycle among the rooms left, such as " << left.begin()->first;
    left.erase(ready);
  }
}

TEST(LayersTest, AllowedIncludesPass) {
  EXPECT_TRUE(findings_of("ops/a.cc", include("strata/ir/ir.h") + include("strata/base/error.h") +
                                          include("strata/ops/a.h") + "#include <vector>\n")
                  .empty());
  EXPECT_TRUE(findings_of("ops/a_test.cc",
                          include("strata/testing/harness.h") + "#include <gtest/gtest.h>\n")
                  .empty());
  EXPECT_TRUE(findings_of("ops/a_test.cc", include("strata/ops/a_for_test.h")).empty());
  EXPECT_TRUE(findings_of("ops/a_for_test.h", "#include <gtest/gtest.h>\n").empty());
  EXPECT_TRUE(findings_of("pjrt/a.cc", include("pjrt_c_api.h") + include("hlo.pb.h")).empty());
  EXPECT_TRUE(
      findings_of("cli/a.cc", include("strata/rl/a.h") + "#include <CLI/CLI.hpp>\n").empty());
}

struct Case {
  std::string path;
  std::string text;
  std::string finding;
};

// Negative controls: each rule broken once.
TEST(LayersTest, EveryRuleFindsItsBreach) {
  const std::vector<Case> cases = {
      {"ops/a.cc", "// x\n" + include("strata/runtime/array.h"),
       "src/strata/ops/a.cc:2: room ops may not include room runtime"},
      {"base/a.h", include("strata/ir/ir.h"),
       "src/strata/base/a.h:1: room base may not include room ir"},
      {"rl/a.cc", "  #  include \"strata/cli/main.h\"\n",
       "src/strata/rl/a.cc:1: room rl may not include room cli"},
      {"ops/a_test.cc", include("strata/runtime/array.h"),
       "src/strata/ops/a_test.cc:1: room ops may not include room runtime"},
      {"ops/a.cc", include("strata/testing/harness.h"),
       "src/strata/ops/a.cc:1: room testing is for tests and bench only"},
      {"rl/a.cc", "#include <nlohmann/json.hpp>\n",
       "src/strata/rl/a.cc:1: <nlohmann/json.hpp> is kept to base"},
      {"cli/a.cc", "#include <toml++/toml.h>\n",
       "src/strata/cli/a.cc:1: <toml++/toml.h> is kept to base"},
      {"base/a.cc", "#include <CLI/CLI.hpp>\n",
       "src/strata/base/a.cc:1: <CLI/CLI.hpp> is kept to cli"},
      {"runtime/a.cc", include("pjrt_c_api.h"),
       "src/strata/runtime/a.cc:1: <pjrt_c_api.h> is kept to pjrt"},
      {"base/a.cc", "#include <gtest/gtest.h>\n",
       "src/strata/base/a.cc:1: <gtest/gtest.h> is kept to testing, tests"},
      {"base/a.cc", include("error.h"), "src/strata/base/a.cc:1: \"error.h\" is no path below src"},
      {"base/a.cc", include("strata/base/files_for_test.h"),
       "src/strata/base/a.cc:1: \"strata/base/files_for_test.h\" is for tests only"},
      {"util/a.cc", "int x;\n", "src/strata/util/a.cc: room util has no row in the table of rooms"},
      {"models/a.cc", "\n// Stacked on axis 0.\n",
       "src/strata/models/a.cc:2: a model file may not speak of scanning or stacked axes"},
      {"models/a.cc", "h = context.lay_out(h, {\"data\"});\n",
       "src/strata/models/a.cc:1: a model file may not speak of mesh axes"},
      {"models/a.cc", "// A LoRA adapter.\n",
       "src/strata/models/a.cc:1: a model file may not speak of what transforms add"},
      {"base/a.cc", std::string(601, '\n'), "src/strata/base/a.cc: 601 lines, more than 600"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(findings_of(c.path, c.text), std::vector<std::string>{c.finding});
  }
  EXPECT_TRUE(findings_of("base/a.cc", std::string(600, '\n')).empty());
}

TEST(LayersTest, ABrokenTableNamesItsLine) {
  testing::ScratchDirectory scratch;
  scratch.write("rooms.txt", "# rooms\nbase:\nir sharding\n");
  try {
    read_rules(scratch.path());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "layers.table");
    EXPECT_NE(std::string(e.what()).find("rooms.txt:3"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace strata::layers
