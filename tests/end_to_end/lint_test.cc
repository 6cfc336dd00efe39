// `strata lint`: the plan of a model's layers from its config.json alone.
#include <gtest/gtest.h>

#include "end_to_end/binary_for_test.h"
#include "strata/base/json.h"

namespace strata::end_to_end {
namespace {

// A directory with the oracle's config.json, of so many layers, and nothing else.
std::string config_only(const Scratch& scratch, int64_t layers) {
  Json config = read_json(oracle("qwen3") / "config.json");
  config["num_hidden_layers"] = layers;
  if (config.contains("layer_types")) config.erase("layer_types");
  scratch.write("config.json", config.dump());
  return scratch.path().string();
}

TEST(Lint, PrintsThePlanOfAModelThatScans) {
  Scratch scratch;
  std::string model = config_only(scratch, 28);
  Outcome o = run({{"lint", "--model", model, "--expect-scan"}});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out, "model.layers: 0-27 scanned 1 x 28\n");
  EXPECT_EQ(o.err, "");
}

TEST(Lint, FailsWhereALayerRunsOutsideOfLoops) {
  Scratch scratch;
  std::string model = config_only(scratch, 1);
  Outcome o = run({{"lint", "--model", model}});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out,
            "model.layers: 0 unrolled\n"
            "  model.layers has one layer, and a loop is for two or more\n");
  Outcome strict = run({{"lint", "--model", model, "--expect-scan"}});
  EXPECT_NE(strict.status, 0);
  EXPECT_EQ(strict.out, o.out);
  std::string id = "cli.not_scanned";
  EXPECT_NE(strict.err.find("unrolled: model.layers.0"), std::string::npos) << strict.err;
  EXPECT_NE(strict.err.find("[" + id + "]"), std::string::npos) << strict.err;
}

TEST(Lint, SpeaksJson) {
  Scratch scratch;
  std::string model = config_only(scratch, 3);
  Outcome o = run({{"lint", "--model", model, "--json"}});
  ASSERT_EQ(o.status, 0) << o.err;
  Json json = parse_json(o.out, "lint");
  EXPECT_EQ(json["model_type"], "qwen3");
  EXPECT_EQ(json["plans"], Json::parse(R"([{"stack": "model.layers", "runs": [
                {"first": 0, "cycle": 1, "repeats": 3, "scanned": true}]}])"));
  EXPECT_TRUE(json["reasons"].empty());
  EXPECT_TRUE(json["unrolled"].empty());
}

TEST(Lint, ShowsTransformsAndWhatTheyDoToThePlan) {
  Scratch scratch;
  std::string model = config_only(scratch, 3);
  Json config = read_json(scratch.path() / "config.json");
  Json lora = {{"kind", "lora"}, {"rank", 2}, {"alpha", 4.0}, {"rslora", false}};
  lora["targets"] = {"model.layers.0.self_attn.q_proj"};
  config["strata_transforms"] = Json::array({lora});
  scratch.write("config.json", config.dump());
  Outcome o = run({{"lint", "--model", model}});
  ASSERT_EQ(o.status, 0) << o.err;
  for (const char* part :
       {"model.layers: 0 unrolled, 1-2 scanned 1 x 2\n", "self_attn.q_proj is Linear with Lora(",
        "transform {\"kind\":\"lora\",\"rank\":2", "adapters: "}) {
    EXPECT_NE(o.out.find(part), std::string::npos) << part << " in\n" << o.out;
  }
  Outcome json = run({{"lint", "--model", model, "--json"}});
  EXPECT_EQ(parse_json(json.out, "lint")["transforms"][0]["kind"], "lora");
  EXPECT_GT(parse_json(json.out, "lint")["adapter_elements"], 0);
}

TEST(Lint, ADirectoryWithoutAConfigIsAnError) {
  Scratch scratch;
  Outcome o = run({{"lint", "--model", scratch.path().string()}});
  EXPECT_NE(o.status, 0);
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.err.find("config.json"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace strata::end_to_end
