// docs/configuration.md and docs/optimizer.md name every key that a run reads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "strata/base/file.h"
#include "strata/base/strings.h"
#include "strata/rl/grpo_config.h"
#include "strata/rl/sft.h"

namespace strata::rl {
namespace {

std::string docs(const std::string& name) {
  return read_file(std::filesystem::path(STRATA_SOURCE_DIR) / "docs" / name);
}

void expect_documented(const Config& config) {
  const std::string text = docs("configuration.md"), optimizer = docs("optimizer.md");
  for (std::string key : config.declared()) {
    if (size_t at = key.find("[0]"); at != std::string::npos) key.erase(at + 1, 1);
    constexpr std::string_view kOptimizer = "optimizer.";
    bool own = key.rfind(kOptimizer, 0) == 0;
    std::string quoted = "`" + (own ? key.substr(kOptimizer.size()) : key) + "`";
    EXPECT_NE((own ? optimizer : text).find(quoted), std::string::npos) << key;
  }
}

constexpr const char* kCommon =
    "[model]\npath = 'm'\n[run]\noutput = 'o'\n[optimizer]\nlr = 1.0\nname = '{}'\n";

TEST(ConfigDocs, EveryKeyOfARun) {
  for (const char* name : {"adamw", "lion", "sgd", "adafactor", "muon"}) {
    std::string common = fmt::format(fmt::runtime(kCommon), name);
    const std::string tables =
        "[lora]\nrank = 1\nalpha = 1.0\ntargets = ['*']\n[fake_quant]\ntargets = ['*']\n";
    Config sft =
        Config::from_text(common + tables + "[data]\ntrain = 't'\n[sft]\nsteps = 1\n", "a");
    read_sft_config(sft);
    EXPECT_GT(sft.declared().size(), 30U);
    expect_documented(sft);
    Config grpo =
        Config::from_text(common + "[grpo]\nsteps = 1\n[[rewards]]\nkind = 'exact'\n", "a");
    read_grpo_config(grpo);
    EXPECT_GT(grpo.declared().size(), 60U);
    expect_documented(grpo);
  }
}

}  // namespace
}  // namespace strata::rl
