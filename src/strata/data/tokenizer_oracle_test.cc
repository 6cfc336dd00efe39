// The strings of the shared oracle with the tokenizers of real models, which are too large to be
// kept in this tree.
#include <gtest/gtest.h>

#include "strata/data/test_data.h"
#include "strata/data/tokenizer.h"

namespace strata::data {
namespace {

class TokenizerOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerOracle, IdsAndDecodingOfEveryString) {
  std::filesystem::path directory = std::filesystem::path(STRATA_SOURCE_DIR).parent_path() /
                                    "shared" / "oracles" / "tokenizers" / GetParam();
  Tokenizer tokenizer = Tokenizer::load(directory);
  Json cases = read_json(directory / "cases.json");
  EXPECT_EQ(cases.size(), 207U);
  for (const Json& c : cases) {
    std::vector<int32_t> ids = c["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.encode(c["text"].get<std::string>()), ids) << c["text"];
    EXPECT_EQ(tokenizer.decode(ids), c["decoded"]) << c["text"];
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerOracle, ::testing::Values("smollm2", "qwen3"));

}  // namespace
}  // namespace strata::data
