// `strata generate` from command line to exit status, over the tiny checkpoint of room sample's
// tests.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"
#include "strata/cli/command.h"
#include "strata/cli/run.h"
#include "strata/testing/scratch_directory.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

fs::path sample_data() { return fs::path(STRATA_SOURCE_DIR) / "tests/testdata/sample"; }

struct Outcome {
  int status;
  std::string out, err;
};

class Generate : public ::testing::Test {
 protected:
  Generate() { ::setenv("STRATA_CACHE", (dir_ / "cache").c_str(), 1); }

  Outcome run_generate(const fs::path& model, std::vector<std::string> more) {
    std::vector<std::string> arguments{
        "generate", "--model", model.string(), "--plugin",
        std::string(STRATA_DEPS_DIR) + "/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    int status = run(arguments, all_commands());
    std::string err = ::testing::internal::GetCapturedStderr();
    return {status, ::testing::internal::GetCapturedStdout(), err};
  }
  std::string write(const std::string& name, const std::string& text) {
    write_file_atomically(dir_ / name, text);
    return (dir_ / name).string();
  }
  // The tiny model with one tensor multiplied.
  fs::path scaled_model(const std::string& tensor, double factor) {
    auto source = weights::open_source(sample_data() / "dense/model.safetensors");
    std::vector<HostTensor> tensors;
    std::vector<weights::NamedTensor> named;
    for (const weights::TensorView& view : source->tensors()) {
      tensors.push_back(weights::to_host(view));
      HostTensor& t = tensors.back();
      for (int64_t i = 0; view.name == tensor && i < t.size(); ++i) t.set(i, t.at(i) * factor);
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      named.push_back({source->tensors()[i].name, &tensors[i]});
    }
    fs::path model = dir_ / "scaled";
    fs::create_directory(model);
    fs::copy_file(sample_data() / "dense/config.json", model / "config.json");
    weights::write_safetensors(model / "model.safetensors", named);
    return model;
  }

  strata::testing::ScratchDirectory scratch_;
  const fs::path& dir_ = scratch_.path();
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Generate, AnswersAFileOfRequestsInOrder) {
  std::string lines;
  std::vector<Json> cases;
  for (const Json& c : read_json(sample_data() / "dense.json")) {
    if (c.contains("config_eos")) continue;
    lines += Json({{"id", c["name"]}, {"tokens", c["prompt"]}}).dump() + "\n";
    cases.push_back(c);
  }
  Outcome o = run_generate(sample_data() / "dense",
                           {"--input", write("in.jsonl", lines), "--json", "--temperature", "0",
                            "--max-new-tokens", "24", "--ignore-eos", "--rows", "2"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(contains(o.err, "72 tokens in ")) << o.err;
  std::vector<std::string> out = split(o.out, '\n');
  ASSERT_EQ(out.size(), cases.size() + 1);
  for (size_t i = 0; i < cases.size(); ++i) {
    Json result = parse_json(out[i], "output");
    EXPECT_EQ(result["id"], cases[i]["name"]);
    EXPECT_EQ(result["tokens"], cases[i]["output"]);
    EXPECT_EQ(result["logprobs"].size(), 24u);
    EXPECT_EQ(result["text"], "");
    EXPECT_EQ(result["finish_reason"], "length");
  }
}

TEST_F(Generate, WrongCallsAreToldBeforeAnyWork) {
  fs::path model = sample_data() / "dense";
  Outcome none = run_generate(model, {"--prompt", "hello"});
  EXPECT_EQ(none.status, 3);
  EXPECT_TRUE(contains(none.err, "sample.no_tokenizer")) << none.err;
  Outcome both = run_generate(model, {"--prompt", "a", "--chat", "b"});
  EXPECT_EQ(both.status, 2) << both.err;
  Outcome range = run_generate(model, {"--prompt", "a", "--top-p", "1.5"});
  EXPECT_EQ(range.status, 3);
  EXPECT_TRUE(contains(range.err, "top_p of at least 0 and at most 1, got 1.5")) << range.err;
  Outcome type = run_generate(model, {"--prompt", "a", "--top-k", "many"});
  EXPECT_EQ(type.status, 3);
  EXPECT_TRUE(contains(type.err, "top_k as an integer")) << type.err;
  Outcome line =
      run_generate(model, {"--input", write("bad.jsonl", "{\"tokens\": [1]}\n{\"tokens\": 1}\n")});
  EXPECT_EQ(line.status, 3);
  EXPECT_TRUE(contains(line.err, "bad.jsonl:2")) << line.err;
  Outcome context = run_generate(
      model, {"--input", write("long.jsonl", "{\"tokens\": [1]}\n"), "--max-new-tokens", "256"});
  EXPECT_EQ(context.status, 3);
  EXPECT_TRUE(contains(context.err, "1 + 256 tokens")) << context.err;
}

// Weights that are finite numbers and overflow all the same.
TEST_F(Generate, LogitsThatOverflowFailTheRequestByName) {
  fs::path model = scaled_model("lm_head.weight", 1e38);
  std::string input = write("in.jsonl", "{\"id\": \"x\", \"tokens\": [3, 5]}\n");
  Outcome o = run_generate(model, {"--input", input, "--json", "--max-new-tokens", "3"});
  EXPECT_EQ(o.status, 5);
  EXPECT_TRUE(contains(o.err, "request 'x', position 2")) << o.err;
  EXPECT_TRUE(contains(o.err, "cli.generate_failed")) << o.err;
  Json result = parse_json(o.out, "output");
  EXPECT_EQ(result["finish_reason"], "error");
  EXPECT_TRUE(contains(result["error"].get<std::string>(), "finite logits"));
}

}  // namespace
}  // namespace strata::cli
