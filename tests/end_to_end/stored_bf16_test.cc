// A model stored in bfloat16 is scored and answers as the same values in float32; `--dtype bf16`
// computes in bfloat16 near to it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

class StoredBf16 : public ::testing::Test {
 protected:
  // The weights of an oracle, rounded to bfloat16 and stored as `dtype`.
  fs::path model(const std::string& name, DType dtype) const {
    fs::path directory = scratch_ / name;
    fs::create_directory(directory);
    fs::copy(oracle("qwen3") / "config.json", directory / "config.json");
    auto source = weights::open_source(oracle("qwen3") / "model.safetensors");
    std::vector<HostTensor> tensors;
    std::vector<weights::NamedTensor> named;
    for (const weights::TensorView& view : source->tensors()) {
      HostTensor rounded = convert(weights::to_host(view), DType::bf16);
      tensors.push_back(dtype == DType::bf16 ? std::move(rounded) : convert(rounded, dtype));
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      named.push_back({std::string(source->tensors()[i].name), &tensors[i]});
    }
    weights::write_safetensors(directory / "model.safetensors", named);
    return directory;
  }
  Outcome run_cached(std::vector<std::string> arguments) const {
    return run({.arguments = std::move(arguments), .cache = scratch_ / "cache"});
  }
  std::vector<Json> answers(const fs::path& directory, const std::string& dtype) const {
    std::string lines;
    for (int id = 0; id < 8; ++id) {
      lines += Json{{"id", id}, {"tokens", {3 + id, 40 + 7 * id, 159 - id}}}.dump() + "\n";
    }
    write_file_atomically(scratch_ / "prompts.jsonl", lines);
    Outcome o = run_cached({"generate", "--model", directory.string(), "--input",
                            (scratch_ / "prompts.jsonl").string(), "--json", "--temperature", "0",
                            "--max-new-tokens", "12", "--ignore-eos", "--dtype", dtype});
    EXPECT_EQ(o.status, 0) << o.err;
    std::vector<Json> out;
    for (const std::string& line : split(o.out, '\n')) {
      if (!line.empty()) out.push_back(parse_json(line, "stdout"));
    }
    EXPECT_EQ(out.size(), 8u);
    return out;
  }

  Scratch scratch_;
};

TEST_F(StoredBf16, IsWidenedExactly) {
  fs::path narrow = model("narrow", DType::bf16), wide = model("wide", DType::f32);
  EXPECT_LT(fs::file_size(narrow / "model.safetensors"),
            0.6 * static_cast<double>(fs::file_size(wide / "model.safetensors")));
  std::string input = (oracle("qwen3") / "golden.safetensors").string();
  for (const fs::path& m : {narrow, wide}) {
    Outcome o = run_cached(
        {"score", "--model", m.string(), "--input", input, "--out", (m / "scores").string()});
    ASSERT_EQ(o.status, 0) << o.err;
  }
  auto a = weights::open_source(narrow / "scores"), b = weights::open_source(wide / "scores");
  for (const char* name : {"logits", "token_logprobs", "loss"}) {
    HostTensor x = weights::to_host(a->get(name)), y = weights::to_host(b->get(name));
    ASSERT_EQ(x.byte_size(), y.byte_size());
    EXPECT_EQ(std::memcmp(x.bytes(), y.bytes(), x.byte_size()), 0) << name;
  }
  EXPECT_EQ(answers(narrow, "f32"), answers(wide, "f32"));
}

// Activations of 8 bits: greedy tokens part where two candidates are close, and from there on all
// differ. Up to there log-probabilities are near.
TEST_F(StoredBf16, AnswersInBf16AreNearThoseInFloat32) {
  fs::path directory = model("narrow", DType::bf16);
  std::vector<Json> exact = answers(directory, "f32"), rounded = answers(directory, "bf16");
  int same = 0, all = 0;
  double largest = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    auto want = exact[i].at("tokens").get<std::vector<int>>();
    auto got = rounded[i].at("tokens").get<std::vector<int>>();
    ASSERT_EQ(got.size(), 12u);
    bool together = true;
    for (size_t t = 0; t < got.size(); ++t) {
      double logprob = rounded[i].at("logprobs").at(t);
      EXPECT_TRUE(std::isfinite(logprob) && logprob <= 0) << logprob;
      together = together && got[t] == want[t];
      same += together ? 1 : 0;
      ++all;
      if (!together) continue;
      largest = std::max(largest, std::abs(logprob - exact[i].at("logprobs").at(t).get<double>()));
    }
  }
  EXPECT_GT(same, all / 2);
  EXPECT_LT(largest, 0.1);
  EXPECT_GT(largest, 1e-5);  // it was bfloat16 indeed
}

}  // namespace
}  // namespace strata::end_to_end
