#include "strata/checkpoint/export_hf.h"

#include <algorithm>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/weights/hf_directory.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights::expect_error;

class ExportTest : public ::testing::Test {
 protected:
  fs::path out() const { return scratch_ / "out"; }
  weights::ScratchDirectory scratch_;
  runtime::ClientPtr client_ = new_client();
};

TEST_F(ExportTest, GivesBackWhatWasImported) {
  for (const char* family : {"llama_tied", "qwen3", "qwen3_tied", "llama3_rope"}) {
    TinyRun run(client_, family, 0);
    export_hf(out(), run.model, refs_of(run.parameters), run.model_directory);
    weights::HfDirectory ours(out());
    auto oracle = weights::open_source(run.model_directory / "model.safetensors");
    ASSERT_EQ(ours.tensors().size(), oracle->tensors().size());
    for (const weights::TensorView& tensor : oracle->tensors()) {
      const weights::TensorView& own = ours.get(tensor.name);
      EXPECT_EQ(own.dims, tensor.dims);
      EXPECT_TRUE(
          std::equal(own.bytes.begin(), own.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
    }
    EXPECT_EQ(ours.metadata().at("format"), "pt");
    fs::remove_all(out());
  }
}

TEST_F(ExportTest, RoundsToBf16AndSplits) {
  TinyRun run(client_, "qwen3_tied", 1);
  uint64_t done = 0, total = 0;
  ExportOptions options{DType::bf16, 20000, [&](uint64_t d, uint64_t t) { done = d, total = t; }};
  export_hf(out(), run.model, refs_of(run.parameters), run.model_directory, options);
  weights::HfDirectory ours(out());
  EXPECT_GT(ours.files().size(), 2u);
  EXPECT_EQ(done, ours.total_bytes());
  EXPECT_EQ(done, total);
  auto oracle = weights::open_source(run.model_directory / "model.safetensors");
  for (const weights::TensorView& tensor : oracle->tensors()) {
    HostTensor rounded = convert(weights::to_host(tensor), DType::bf16);
    HostTensor own = weights::to_host(ours.get(tensor.name));
    ASSERT_EQ(own.byte_size(), rounded.byte_size());
    EXPECT_EQ(own.dtype(), DType::bf16);
    EXPECT_EQ(std::memcmp(own.bytes(), rounded.bytes(), own.byte_size()), 0) << tensor.name;
  }
}

TEST_F(ExportTest, CarriesTheOtherFiles) {
  TinyRun run(client_, "qwen3_tied", 0);
  fs::path source = scratch_ / "source";
  weights::put_file(source / "config.json", R"({"dtype": "float32", "x": 1, "torch_dtype": "?"})");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                           "chat_template.jinja"}) {
    weights::put_file(source / name, std::string("{\"name\": \"") + name + "\"}");
  }
  weights::put_file(source / "model.safetensors", "stale");
  export_hf(out(), run.model, refs_of(run.parameters), source, {.dtype = DType::bf16});
  EXPECT_EQ(read_json(out() / "config.json"),
            Json::parse(R"({"dtype": "bfloat16", "x": 1, "torch_dtype": "bfloat16"})"));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                           "chat_template.jinja"}) {
    EXPECT_EQ(read_file(out() / name), read_file(source / name));
  }
  EXPECT_NO_THROW(weights::HfDirectory{out()});
}

TEST_F(ExportTest, RefusesAndLeavesNothing) {
  TinyRun run(client_, "qwen3_tied", 0);
  ArrayRefs arrays = refs_of(run.parameters);
  expect_error([&] { export_hf(out(), run.model, arrays, run.model_directory, {DType::f16}); },
               "checkpoint.export_dtype", "got f16");
  expect_error([&] { export_hf(out(), run.model, arrays, scratch_ / "none"); },
               "checkpoint.no_config", "no directory");
  arrays.pop_back();
  expect_error([&] { export_hf(out(), run.model, arrays, run.model_directory); }, "checkpoint.tree",
               "arrays");
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

}  // namespace
}  // namespace strata::checkpoint
