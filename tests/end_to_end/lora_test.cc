// Whole runs that train adapters: the base stays as it was, everything that reads the model sees
// them, and the exports compute what the run computed.
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "end_to_end/runs_for_test.h"
#include "strata/base/file.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/rl/score.h"
#include "strata/testing/executor.h"
#include "strata/transform/lower.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

using Settings = std::vector<std::string>;

const Settings kLora{"lora.rank=4", "lora.alpha=8", "lora.targets=[\"*_proj\"]",
                     "optimizer.lr=2e-2"};

Settings lora(Settings more = {}) {
  more.insert(more.begin(), kLora.begin(), kLora.end());
  return more;
}

// Logits of a few tokens under a model directory or checkpoint, as `strata score` computes them.
std::vector<double> logits(const fs::path& directory, runtime::Compiler& compiler) {
  auto model = models::build_model(directory);
  nn::Structure structure(*model, {}, model->ties());
  auto function = score_function(*model, structure, {1, 12, false, DType::f32});
  auto source = weights::open_source(directory);
  std::vector<runtime::Array> arrays = checkpoint::load_parameters(
      structure.manifest(), *source, compiler.client(), {.ignorable = model->ignorable()});
  HostTensor ids(DType::i32, {1, 12});
  for (int64_t i = 0; i < 12; ++i) ids.set(i, static_cast<double>(100 + 977 * i));
  arrays.push_back(runtime::Array::put(compiler.client(), ids));
  std::vector<runtime::Argument> arguments;
  for (const runtime::Array& a : arrays) arguments.push_back(runtime::Argument::borrow(a));
  runtime::Executor run(compiler.compile(transform::program_text(*function),
                                         runtime::request_for(*function, "score")));
  HostTensor got = run.run(arguments)[0].get();
  std::vector<double> out;
  for (int64_t i = 0; i < got.size(); ++i) out.push_back(got.at(i));
  return out;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

fs::path checkpoint_of(const fs::path& run, int64_t step) {
  return run / "checkpoints" / ("step-0000000" + std::to_string(step));
}

bool same_bytes(const weights::TensorView& a, const weights::TensorView& b) {
  return a.dims == b.dims &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

bool is_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

TEST_F(Runs, SftOfAdaptersLeavesTheBaseAndExportsBoth) {
  write_data();
  SftSummary s = sft("a", lora({"sft.steps=8"}));
  EXPECT_LT(s.last_loss, s.first_loss - 0.3);
  // The checkpoint holds the base, bit for bit, and adapters; optimiser state of these alone.
  const fs::path saved = checkpoint_of(dir_ / "a", 8);
  auto base = weights::open_source(dir_ / "model"), state = weights::open_source(saved);
  EXPECT_EQ(state->tensors().size(), base->tensors().size() + 2 * 2 * 7);
  for (const weights::TensorView& t : base->tensors()) {
    EXPECT_TRUE(same_bytes(t, state->get(t.name))) << t.name;
  }
  uint64_t adapter_bytes = 0, slot_bytes = 0;
  for (const weights::TensorView& t : state->tensors()) {
    if (is_adapter(t.name)) adapter_bytes += t.byte_size();
  }
  auto slots = weights::open_source(saved / "optimizer");
  for (const weights::TensorView& t : slots->tensors()) {
    EXPECT_TRUE(is_adapter(t.name)) << t.name;
    slot_bytes += t.byte_size();
  }
  EXPECT_EQ(slot_bytes, 2 * adapter_bytes);  // AdamW's two moments
  // Merged or not, the model is the same one.
  std::vector<double> adapted = logits(saved, *compiler_);
  EXPECT_LT(largest_difference(logits(dir_ / "a/export", *compiler_), adapted), 1e-4);
  EXPECT_GT(largest_difference(logits(dir_ / "model", *compiler_), adapted), 0.1);
  auto exported = weights::open_source(dir_ / "a/export");
  EXPECT_EQ(exported->tensors().size(), base->tensors().size());
  EXPECT_FALSE(read_json(dir_ / "a/export/config.json").contains(nn::kTransformsKey));
  // PEFT's form.
  Json peft = read_json(dir_ / "a/adapter/adapter_config.json");
  EXPECT_EQ(peft["peft_type"], "LORA");
  EXPECT_EQ(peft["r"], 4);
  EXPECT_EQ(peft["lora_alpha"], 8);
  std::set<std::string> targets = peft["target_modules"];
  EXPECT_EQ(targets, (std::set<std::string>{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                            "up_proj", "down_proj"}));
  auto adapter = weights::open_source(dir_ / "a/adapter/adapter_model.safetensors");
  EXPECT_EQ(adapter->tensors().size(), 2u * 2 * 7);
  const std::string name = "model.layers.1.mlp.down_proj.lora_B.weight";
  EXPECT_TRUE(same_bytes(adapter->get("base_model.model." + name), state->get(name)));
}

TEST_F(Runs, AdaptersTrainAlikeHoweverTheLayersRun) {
  write_data();
  sft("scanned", lora());
  sft("unrolled", lora({"layers.scan=off"}));
  sft("axis", lora({"layers.param_scan_axis=1", "layers.remat=full"}));
  compiler_ =
      std::make_shared<runtime::Compiler>(testing::Executor(testing::CpuPlugin::newer, 4).client(),
                                          runtime::CompilerOptions{.cache_dir = {}});
  sft("mesh", lora({"sharding.mesh=\"fsdp=2,tensor=2\""}));
  for (const char* other : {"unrolled", "axis", "mesh"}) {
    for (size_t step = 0; step < 6; ++step) {
      for (const char* what : {"loss/train", "loss/grad_norm"}) {
        double want = *metrics("scanned")[step].find(what);
        EXPECT_NEAR(*metrics(other)[step].find(what), want, 1e-4 * std::abs(want))
            << other << ", " << what << " of step " << step;
      }
    }
  }
}

// At a rate of 0 a checkpoint holds what the adapters began with: the same bits in every form.
TEST_F(Runs, AdaptersBeginAlikeInEveryForm) {
  write_data();
  const Settings still{"sft.steps=1", "optimizer.lr=0", "train.accumulate=1"};
  auto begun = [&](const std::string& output, Settings more) {
    more.insert(more.end(), still.begin(), still.end());
    sft(output, lora(std::move(more)));
    std::map<std::string, std::string> hashes;
    Json index = read_json(checkpoint_of(dir_ / output, 1) / "manifest.json");
    for (const Json& t : index.at("parameters")) hashes[t.at("name")] = t.at("sha256");
    return hashes;
  };
  auto want = begun("scanned", {});
  EXPECT_NE(want.at("model.layers.0.mlp.up_proj.lora_A.weight"),
            want.at("model.layers.1.mlp.up_proj.lora_A.weight"));
  EXPECT_EQ(begun("unrolled", {"layers.scan=off"}), want);
  EXPECT_NE(begun("seed", {"run.seed=1"}), want);
  compiler_ =
      std::make_shared<runtime::Compiler>(testing::Executor(testing::CpuPlugin::newer, 4).client(),
                                          runtime::CompilerOptions{.cache_dir = {}});
  EXPECT_EQ(begun("mesh", {"sharding.mesh=\"fsdp=2,tensor=2\""}), want);
}

TEST_F(Runs, AResumedRunOfAdaptersIsTheUninterruptedOne) {
  write_data();
  sft("whole", lora());
  sft("parts", lora(), 2);
  for (const char* other : {"lora.alpha=9", "lora.rank=2", "lora.rslora=true"}) {
    EXPECT_EQ(error_id([&] {
                sft("parts", lora({other, "run.resume=true"}));
              }),
              "rl.transform_resume");
  }
  EXPECT_EQ(error_id([&] { sft("parts", {"run.resume=true"}); }), "rl.transform_resume");
  sft("parts", lora({"run.resume=true"}));
  EXPECT_EQ(state("parts", 6), state("whole", 6));
}

// A checkpoint with adapters is a model directory whose adapters train on.
TEST_F(Runs, AnotherRunBeginsWithTheAdaptersOfACheckpoint) {
  write_data();
  SftSummary first = sft("a", lora({"sft.steps=4"}));
  fs::rename(dir_ / "model", dir_ / "base");
  fs::copy(checkpoint_of(dir_ / "a", 4), dir_ / "model", fs::copy_options::recursive);
  EXPECT_EQ(error_id([&] { sft("b", lora({"lora.rank=2"})); }), "rl.transform_differs");
  SftSummary second = sft("c", {"optimizer.lr=2e-2", "sft.steps=1"});
  EXPECT_LT(second.first_loss, first.first_loss - 0.1);
  SftSummary same = sft("d", lora({"sft.steps=1"}));
  EXPECT_EQ(same.first_loss, second.first_loss);
  auto base = weights::open_source(dir_ / "base"),
       last = weights::open_source(checkpoint_of(dir_ / "d", 1));
  for (const weights::TensorView& t : base->tensors()) {
    EXPECT_TRUE(same_bytes(t, last->get(t.name))) << t.name;
  }
  EXPECT_EQ(weights::open_source(dir_ / "d/export")->tensors().size(), base->tensors().size());
}

TEST_F(Runs, GrpoOfAdapters) {
  grpo("whole", lora({"grpo.beta=0.05"}));
  std::vector<StepMetrics> all = metrics("whole");
  ASSERT_EQ(all.size(), 4u);
  // Rollouts come from the adapted model, and the reference is the model before.
  for (const StepMetrics& m : all) EXPECT_LE(*m.find("mismatch/max"), 1e-4);
  EXPECT_NEAR(*all[0].find("loss/kl"), 0, 1e-6);
  EXPECT_GT(*all[3].find("loss/kl"), 1e-3);
  const fs::path saved = checkpoint_of(dir_ / "whole", 4);
  auto base = weights::open_source(dir_ / "model"), last = weights::open_source(saved);
  for (const weights::TensorView& t : base->tensors()) {
    EXPECT_TRUE(same_bytes(t, last->get(t.name))) << t.name;
  }
  EXPECT_LT(
      largest_difference(logits(dir_ / "whole/export", *compiler_), logits(saved, *compiler_)),
      1e-4);
  grpo("parts", lora({"grpo.beta=0.05"}), 2);
  grpo("parts", lora({"grpo.beta=0.05", "run.resume=true"}));
  EXPECT_EQ(state("parts", 4), state("whole", 4));
}

// Kernels that are rounded in every call: the scales are made of the weights at the start.
TEST_F(Runs, FakeQuantisedKernels) {
  write_data();
  const Settings quant{"fake_quant.targets=[\"*_proj\"]", "sft.steps=3", "optimizer.lr=1e-3"};
  auto with = [&](Settings more) {
    more.insert(more.begin(), quant.begin(), quant.end());
    return more;
  };
  sft("a", quant);
  sft("unrolled", with({"layers.scan=off"}));
  for (size_t step = 0; step < 3; ++step) {
    double want = *metrics("a")[step].find("loss/train");
    EXPECT_NEAR(*metrics("unrolled")[step].find("loss/train"), want, 1e-5 * want);
  }
  auto base = weights::open_source(dir_ / "model"),
       last = weights::open_source(checkpoint_of(dir_ / "a", 3));
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  HostTensor before = weights::to_host(base->get(name)), after = weights::to_host(last->get(name));
  HostTensor scales = weights::to_host(last->get(name + "_scale"));
  ASSERT_EQ(scales.dims(), (Dims{48}));
  for (int64_t row = 0; row < 48; ++row) {
    double most = 0;
    for (int64_t i = 0; i < 32; ++i) most = std::max(most, std::abs(before.at(row * 32 + i)));
    EXPECT_FLOAT_EQ(static_cast<float>(scales.at(row)), static_cast<float>(most / 127));
  }
  EXPECT_FALSE(same_bytes(base->get(name), last->get(name)));  // trained through the rounding
  EXPECT_LT(largest_difference(logits(dir_ / "a/export", *compiler_),
                               logits(checkpoint_of(dir_ / "a", 3), *compiler_)),
            1e-6);
  // Adapters on a quantised base.
  SftSummary both = sft("both", lora(with({"fake_quant.format=fp8_e4m3", "sft.steps=3"})));
  EXPECT_LT(both.last_loss, both.first_loss);
  auto adapted = weights::open_source(checkpoint_of(dir_ / "both", 3));
  EXPECT_TRUE(same_bytes(base->get(name), adapted->get(name)));
  sft("both", lora(with({"fake_quant.format=fp8_e4m3", "sft.steps=4", "run.resume=true"})));
  EXPECT_EQ(error_id([&] { sft("both", lora(with({"run.resume=true"}))); }), "rl.transform_resume");
}

TEST_F(Runs, LoraSettingsThatCannotBe) {
  write_data();
  auto refused = [&](Settings settings) {
    return error_id([&] { sft("a", std::move(settings)); });
  };
  EXPECT_EQ(refused(lora({"lora.rank=0"})), "config.range");
  EXPECT_EQ(refused(lora({"lora.alpha=0"})), "config.range");
  EXPECT_EQ(refused(lora({"lora.targets=[]"})), "nn.transform_target");
  EXPECT_EQ(refused(lora({"lora.targets=[\"*.q_porj\"]"})), "nn.transform_target");
  EXPECT_EQ(refused(lora({"lora.targets=[\"lm_head\"]"})), "nn.transform_target");
  EXPECT_EQ(refused(lora({"lora.dropout=0.1"})), "config.unknown_key");
  EXPECT_EQ(refused({"lora.alpha=1", "lora.targets=[\"*\"]"}), "config.missing");
  EXPECT_EQ(refused(lora({"optimizer.name=muon", "optimizer.adam_lr=1e-3"})), "rl.adam_lr");
  EXPECT_EQ(refused({"fake_quant.format=int4", "fake_quant.targets=[\"*_proj\"]"}),
            "config.choice");
  EXPECT_EQ(refused({"fake_quant.format=int8"}), "nn.transform_target");
  EXPECT_FALSE(fs::exists(dir_ / "a/metrics.jsonl"));
}

}  // namespace
}  // namespace strata::rl
