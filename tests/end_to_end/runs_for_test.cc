#include "end_to_end/runs_for_test.h"

#include <cstring>
#include <fstream>

#include "strata/base/file.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/models/registry.h"
#include "strata/rl/sampler_rollouts.h"
#include "strata/testing/executor.h"
#include "strata/weights/safetensors_writer.h"

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

// A fifth of the tokens end an answer, so that answers of this model, which knows nothing, differ
// in length. They are those on one side of a plane through the embeddings, so that it can learn to
// end.
void write_eos(const fs::path& directory, const HostTensor& embeddings) {
  Json ids = {2};
  int64_t width = embeddings.dims()[1];
  for (int64_t id = 3; id < embeddings.dims()[0]; ++id) {
    if (embeddings.at(id * width) > 0.06) ids.push_back(id);
  }
  write_file_atomically(directory / "generation_config.json", Json{{"eos_token_id", ids}}.dump());
}

void write_weights(const fs::path& directory) {
  auto model = models::build_model(directory);
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
    if (named.back().name == "model.embed_tokens.weight") write_eos(directory, tensors[i]);
  }
  weights::write_safetensors(directory / "model.safetensors", named);
}

}  // namespace

void Runs::SetUp() {
  fs::create_directory(dir_ / "model");
  write_file_atomically(dir_ / "model/config.json", kConfig);
  write_file_atomically(dir_ / "model/chat_template.jinja", kTemplate);
  fs::copy(fs::path(STRATA_SOURCE_DIR) / "tests/testdata/data/smollm2_tokenizer.json",
           dir_ / "model/tokenizer.json");
  write_weights(dir_ / "model");
  compiler_ = std::make_shared<runtime::Compiler>(testing::Executor().client(),
                                                  runtime::CompilerOptions{.cache_dir = {}});
}

Config Runs::config(const std::string& text, const std::string& output,
                    std::vector<std::string> overrides) const {
  overrides.push_back("model.path=" + (dir_ / "model").string());
  overrides.push_back("run.output=" + (dir_ / output).string());
  return Config::from_text(text, "test.toml", overrides);
}

std::string Runs::state(const std::string& output, int64_t step,
                        std::optional<int64_t> micro_steps) const {
  Json index =
      read_json(checkpoint::checkpoint_path(dir_ / output, step, micro_steps) / "manifest.json");
  std::string text;
  for (const char* part : {"parameters", "slots"}) {
    for (const Json& t : index.at(part)) {
      text += t.at("name").get<std::string>() + " " + t.at("sha256").get<std::string>() + "\n";
    }
  }
  return text;
}

std::vector<std::string> Runs::saved(const std::string& output) const {
  std::vector<std::string> out;
  for (const checkpoint::StoredCheckpoint& c : checkpoint::find_checkpoints(dir_ / output)) {
    out.push_back(c.path.filename().string());
  }
  return out;
}

SftSummary Runs::sft(const std::string& output, std::vector<std::string> overrides,
                     int64_t stop_after, StopPoint point) const {
  constexpr const char* kSft =
      "[optimizer]\nlr = 1e-2\n[train]\nrows = 2\nrow_tokens = 48\naccumulate = 2\n"
      "[sft]\nsteps = 6\n";
  overrides.push_back("data.train=" + (dir_ / "data.jsonl").string());
  overrides.push_back("data.eval=" + (dir_ / sft_eval_).string());
  Config c = config(kSft, output, overrides);
  SftRun run(read_sft_config(c), compiler_);
  int64_t asked = 0;
  return run.run([&](StopPoint p) { return p == point && asked++ >= stop_after; });
}

GrpoSummary Runs::grpo(const std::string& output, std::vector<std::string> overrides,
                       int64_t stop_after, StopPoint point) const {
  constexpr const char* kGrpo =
      "[optimizer]\nlr = 1e-3\n[grpo]\nsteps = 4\nprompts_per_step = 3\ngroup_size = 4\n"
      "max_new_tokens = 6\n[task]\nvalidation = 0\nheld_out = 5\n";
  Config c = config(kGrpo + rewards_, output, overrides);
  GrpoRun run(read_grpo_config(c), compiler_, make_sampler_rollouts);
  int64_t asked = 0;
  return run.run([&](StopPoint p) {
    if (p == StopPoint::step) between_steps_();
    return p == point && asked++ >= stop_after;
  });
}

void Runs::write_data() const {
  std::ofstream out(dir_ / "data.jsonl");
  for (int i = 0; i < 12; ++i) {
    out << R"({"messages": [{"role": "user", "content": "Say )" << i
        << R"("}, {"role": "assistant", "content": "It is )" << std::string(size_t(1 + i % 3), 'a')
        << "\"}]}\n";
  }
}

std::vector<StepMetrics> Runs::metrics(const std::string& output) const {
  return read_json_lines(dir_ / output / "metrics.jsonl");
}

std::string error_id(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.id();
  }
  return "";
}

}  // namespace strata::rl
