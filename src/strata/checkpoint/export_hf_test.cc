#include "strata/checkpoint/export_hf.h"

#include <algorithm>
#include <cmath>

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

// qwen3_tied with an adapter of rank 2 on each layer's q_proj, and what its weights come to.
struct AdaptedRun : TinyRun {
  std::vector<LowRankMerge> merges;

  AdaptedRun(runtime::ClientPtr c, Form form) : TinyRun(std::move(c), "qwen3_tied", form) {
    std::vector<sharding::Slot> more = model.slots();
    for (const sharding::Slot& slot : model.slots()) {
      if (slot.name.find("q_proj.weight") == std::string::npos) continue;
      std::string stem = slot.name.substr(0, slot.name.size() - 6);
      for (const char* factor : {"lora_A.weight", "lora_B.weight"}) {
        bool is_a = std::string(factor) == "lora_A.weight";
        sharding::Slot s{stem + factor, sharding::Kind::adapter, slot.type};
        for (size_t d = 0, plain = 0; d < s.type.dims.size(); ++d) {
          if (s.type.dims[d].role != sharding::Role::none) continue;
          if (plain++ == (is_a ? 0u : 1u)) s.type.dims[d].size = 2;
        }
        parameters.push_back(factors(s));
        more.push_back(std::move(s));
      }
      for (const weights::Wanted& w : members_of(slot)) {
        std::string name = w.name.substr(0, w.name.size() - 6);
        merges.push_back({w.name, name + "lora_A.weight", name + "lora_B.weight", 1.5});
      }
    }
    model = sharding::Manifest(more, {}, model.plans());
  }

  runtime::Array factors(const sharding::Slot& slot) const {
    HostTensor t(DType::f32, slot.type.sizes());
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, std::sin(static_cast<double>(i)) / 4);
    return runtime::Array::put(client, t);
  }

  std::map<std::string, HostTensor> tensors() const {
    TreeReader reader(model.slots(), refs_of(parameters));
    std::map<std::string, HostTensor> out;
    for (const weights::TensorSpec& spec : reader.specs()) {
      HostTensor one(spec.dtype, spec.dims);
      std::byte* at = one.bytes();
      reader.read(spec.name, [&](std::span<const std::byte> piece) {
        at = std::copy(piece.begin(), piece.end(), at);
      });
      out.emplace(spec.name, std::move(one));
    }
    return out;
  }
};

// Checks q_proj of both layers against w + 1.5 · b a in double; the rest is as it was.
void expect_merged(const AdaptedRun& run, const weights::TensorSource& got, double tolerance) {
  auto want = run.tensors();
  EXPECT_EQ(got.tensors().size(), want.size() - 2 * run.merges.size());
  for (const LowRankMerge& m : run.merges) {
    const HostTensor &w = want.at(m.weight), &a = want.at(m.a), &b = want.at(m.b);
    HostTensor own = weights::to_host(got.get(m.weight));
    int64_t in = w.dims()[1];
    double changed = 0;
    for (int64_t i = 0; i < w.size(); ++i) {
      double sum = w.at(i);
      for (int64_t r = 0; r < 2; ++r) sum += 1.5 * b.at(i / in * 2 + r) * a.at(r * in + i % in);
      EXPECT_NEAR(own.at(i), sum, tolerance);
      changed = std::max(changed, std::abs(sum - w.at(i)));
    }
    EXPECT_GT(changed, 0.05);
    EXPECT_EQ(got.find(m.a), nullptr);
  }
  const char* kept = "model.layers.0.mlp.up_proj.weight";
  HostTensor own = weights::to_host(got.get(kept));
  for (int64_t i = 0; i < own.size(); ++i) {
    EXPECT_NEAR(own.at(i), want.at(kept).at(i), tolerance == 0 ? 0 : tolerance);
  }
}

TEST_F(ExportTest, MergesAdapters) {
  for (Form form : {Form(), Form(0), Form(1)}) {
    AdaptedRun run(client_, form);
    ExportOptions options;
    options.merges = run.merges;
    options.config = {{"model_type", "changed"}};
    export_hf(out(), run.model, refs_of(run.parameters), run.model_directory, options);
    weights::HfDirectory ours(out());
    expect_merged(run, ours, 1e-6);
    EXPECT_EQ(read_json(out() / "config.json")["model_type"], "changed");
    fs::remove_all(out());
    options.dtype = DType::bf16;
    export_hf(out(), run.model, refs_of(run.parameters), run.model_directory, options);
    expect_merged(run, weights::HfDirectory(out()), 0.01);
    fs::remove_all(out());
  }
}

TEST_F(ExportTest, MergesTheAdaptersOfFiles) {
  AdaptedRun run(client_, Form());
  export_hf(scratch_ / "apart", run.model, refs_of(run.parameters), run.model_directory);
  ExportOptions options;
  options.merges = run.merges;
  export_merged(out(), run.model, scratch_ / "apart", options);
  expect_merged(run, weights::HfDirectory(out()), 1e-6);
  options.merges[0].a = "none";
  expect_error([&] { export_merged(scratch_ / "b", run.model, scratch_ / "apart", options); },
               "checkpoint.merge", "a tensor 'none'");
  EXPECT_FALSE(fs::exists(scratch_ / "b"));
}

TEST_F(ExportTest, WritesAdaptersAloneAsPeftReadsThem) {
  AdaptedRun run(client_, Form(1));
  export_adapter(out(), run.model, refs_of(run.parameters), {{"r", 2}});
  EXPECT_EQ(read_json(out() / "adapter_config.json"), (Json{{"r", 2}}));
  auto file = weights::open_source(out() / "adapter_model.safetensors");
  ASSERT_EQ(file->tensors().size(), 2 * run.merges.size());
  auto want = run.tensors();
  for (const LowRankMerge& m : run.merges) {
    HostTensor own = weights::to_host(file->get("base_model.model." + m.b));
    EXPECT_EQ(own.dims(), want.at(m.b).dims());
    EXPECT_EQ(std::memcmp(own.bytes(), want.at(m.b).bytes(), own.byte_size()), 0);
  }
  expect_error([&] { export_adapter(out(), run.model, refs_of(run.parameters), {}); },
               "file.exists", "out");
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
