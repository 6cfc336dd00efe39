// Whole training runs on a small random model with a real tokenizer: they learn, a resumed run is
// the uninterrupted one bit for bit, nothing compiles after the first step, and the export loads.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "strata/models/registry.h"
#include "strata/rl/grpo.h"
#include "strata/rl/sampler_rollouts.h"
#include "strata/rl/sft.h"
#include "strata/testing/executor.h"
#include "strata/testing/random.h"
#include "strata/testing/scratch_directory.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 49152,
  "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 48, "max_position_embeddings": 512, "tie_word_embeddings": true,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "eos_token_id": 2, "hidden_act": "silu"})";
// Turns as SmolLM2 writes them, without its system message.
constexpr const char* kTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class Runs : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(dir_ / "model");
    std::ofstream(dir_ / "model/config.json") << kConfig;
    std::ofstream(dir_ / "model/chat_template.jinja") << kTemplate;
    fs::copy(fs::path(STRATA_SOURCE_DIR) / "tests/testdata/data/smollm2_tokenizer.json",
             dir_ / "model/tokenizer.json");
    write_weights();
    compiler_ = std::make_shared<runtime::Compiler>(testing::Executor().client(),
                                                    runtime::CompilerOptions{.cache_dir = {}});
  }

  void write_weights() {
    auto model = models::build_model(dir_ / "model");
    nn::Structure structure(*model, {nn::ScanMode::off, 0, {}}, model->ties());
    std::vector<HostTensor> tensors;
    std::vector<weights::NamedTensor> named;
    uint32_t word = 12345;
    for (const sharding::Slot& s : structure.manifest().slots()) {
      HostTensor t(DType::f32, s.type.sizes());
      for (float& v : t.data<float>()) {
        word = word * 1664525u + 1013904223u;
        float unit = static_cast<float>(word >> 8) / static_cast<float>(1 << 24) - 0.5f;
        v = t.dims().size() == 1 ? 1 + 0.1f * unit : 0.2f * unit;
      }
      tensors.push_back(std::move(t));
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      named.push_back({structure.manifest().slots()[i].name, &tensors[i]});
    }
    weights::write_safetensors(dir_ / "model/model.safetensors", named);
  }

  Config config(const std::string& text, const std::string& output,
                std::vector<std::string> overrides) {
    overrides.push_back("model.path=" + (dir_ / "model").string());
    overrides.push_back("run.output=" + (dir_ / output).string());
    return Config::from_text(text, "test.toml", overrides);
  }

  // Every tensor of the run's checkpoint, optimiser state included, as one text of hashes.
  std::string state(const std::string& output, int64_t step) {
    char name[32];
    std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
    Json index = read_json(dir_ / output / "checkpoints" / name / "manifest.json");
    std::string text;
    for (const char* part : {"parameters", "slots"}) {
      for (const Json& t : index.at(part)) {
        text += t.at("name").get<std::string>() + " " + t.at("sha256").get<std::string>() + "\n";
      }
    }
    return text;
  }

  SftSummary sft(const std::string& output, std::vector<std::string> overrides,
                 int64_t stop_after = 1000) {
    constexpr const char* kSft =
        "[optimizer]\nlr = 1e-2\n[train]\nrows = 2\nrow_tokens = 48\naccumulate = 2\n"
        "[sft]\nsteps = 6\n";
    overrides.push_back("data.train=" + (dir_ / "data.jsonl").string());
    overrides.push_back("data.eval=" + (dir_ / "data.jsonl").string());
    Config c = config(kSft, output, overrides);
    SftRun run(read_sft_config(c), compiler_);
    int64_t asked = 0;
    return run.run([&] { return asked++ >= stop_after; });
  }

  GrpoSummary grpo(const std::string& output, std::vector<std::string> overrides,
                   int64_t stop_after = 1000) {
    constexpr const char* kGrpo =
        "[optimizer]\nlr = 1e-3\n[grpo]\nsteps = 4\nprompts_per_step = 3\ngroup_size = 4\n"
        "max_new_tokens = 6\n[task]\nvalidation = 0\nheld_out = 5\n"
        "[[rewards]]\nkind = \"length\"\noptions = {max = 6}\n";
    Config c = config(kGrpo, output, overrides);
    GrpoRun run(read_grpo_config(c), compiler_, make_sampler_rollouts);
    int64_t asked = 0;
    return run.run([&] { return asked++ >= stop_after; });
  }

  void write_data() {
    std::ofstream out(dir_ / "data.jsonl");
    for (int i = 0; i < 12; ++i) {
      out << R"({"messages": [{"role": "user", "content": "Say )" << i
          << R"("}, {"role": "assistant", "content": "It is )"
          << std::string(size_t(1 + i % 3), 'a') << "\"}]}\n";
    }
  }

  testing::ScratchDirectory scratch_;
  const fs::path& dir_ = scratch_.path();
  std::shared_ptr<runtime::Compiler> compiler_;
};

TEST_F(Runs, SftLearnsAndItsExportLoads) {
  write_data();
  SftSummary s = sft("a", {"sft.steps=12"});
  EXPECT_EQ(s.steps, 12);
  EXPECT_NEAR(s.first_loss, 10.8, 1.0);
  EXPECT_LT(s.last_loss, s.first_loss - 2);
  ASSERT_TRUE(s.eval_loss.has_value());
  auto exported = weights::open_source(dir_ / "a/export");
  auto source = weights::open_source(dir_ / "model");
  EXPECT_EQ(exported->tensors().size(), source->tensors().size());
  for (const char* file : {"config.json", "tokenizer.json", "chat_template.jinja"}) {
    EXPECT_TRUE(fs::exists(dir_ / "a/export" / file)) << file;
  }
}

TEST_F(Runs, ResumedSftIsTheUninterruptedRun) {
  write_data();
  sft("whole", {});
  SftSummary first = sft("parts", {}, 2);
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.steps, 2);
  sft("parts", {"run.resume=true"});
  EXPECT_EQ(state("parts", 6), state("whole", 6));
}

TEST_F(Runs, ResumedGrpoIsTheUninterruptedRun) {
  GrpoSummary whole = grpo("whole", {});
  EXPECT_EQ(whole.steps, 4);
  EXPECT_TRUE(fs::exists(dir_ / "whole/report.html"));
  EXPECT_TRUE(fs::exists(dir_ / "whole/summary.json"));
  grpo("parts", {}, 2);
  grpo("parts", {"run.resume=true"});
  EXPECT_EQ(state("parts", 4), state("whole", 4));
}

TEST_F(Runs, NothingCompilesAfterTheFirstStep) {
  grpo("a", {"grpo.steps=1"});
  int64_t before = compiler_->counters().compiles;
  grpo("b", {"grpo.steps=4", "optimizer.lr=2e-4", "grpo.temperature=0.7", "optimizer.clip_norm=0.5",
             "optimizer.weight_decay=0.1"});
  EXPECT_EQ(compiler_->counters().compiles, before);
}

// Trainer and sampler agree about the log-probabilities of what was sampled, at any temperature.
TEST_F(Runs, SamplerAndTrainerAgree) {
  grpo("a", {"grpo.temperature=0.6"});
  for (const StepMetrics& m : read_json_lines(dir_ / "a/metrics.jsonl")) {
    EXPECT_LE(m.find("mismatch/max").value_or(0), 1e-4);
  }
}

// The id of the error that `action` ends with, and nothing written below `output`.
std::string refused(const fs::path& output, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_FALSE(fs::exists(output / "metrics.jsonl"));
    return e.id();
  }
  return "nothing was refused";
}

TEST_F(Runs, WhatDoesNotFitIsRefusedBeforeAnythingIsWritten) {
  write_data();
  EXPECT_EQ(refused(dir_ / "a", [&] { grpo("a", {"grpo.max_new_tokens=600"}); }), "rl.context");
  EXPECT_EQ(refused(dir_ / "b", [&] { sft("b", {"train.row_tokens=1024"}); }), "rl.sft_context");
  fs::remove(dir_ / "model/chat_template.jinja");
  EXPECT_EQ(refused(dir_ / "c", [&] { grpo("c", {}); }), "rl.no_chat_template");
}

// A checkpoint that lacks a counter is damaged: an error, never a fresh start.
TEST_F(Runs, ADamagedCheckpointIsNoFreshStart) {
  write_data();
  sft("a", {"sft.steps=1"});
  fs::path manifest = dir_ / "a/checkpoints/step-00000001/manifest.json";
  Json json = read_json(manifest);
  json["run"]["counts"].erase("count");
  std::ofstream(manifest) << json.dump();
  try {
    sft("a", {"sft.steps=2", "run.resume=true"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "rl.saved_counts");
    EXPECT_EQ(e.code(), Code::data_loss);
  }
}

TEST_F(Runs, TheDirectoryOfAnotherRunIsLeftAlone) {
  grpo("a", {"grpo.steps=1"});
  std::string before = state("a", 1);
  try {
    grpo("a", {"grpo.steps=2"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "rl.run_exists");
  }
  EXPECT_EQ(state("a", 1), before);
}

}  // namespace
}  // namespace strata::rl
