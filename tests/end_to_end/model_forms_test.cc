// Every command takes every form of a model: a Hugging Face directory, a checkpoint, a run (its
// latest checkpoint), stacked trees at each axis, cycle slots; and says the same of each.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/models/registry.h"
#include "strata/nn/structure.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 49152,
  "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
  "intermediate_size": 24, "max_position_embeddings": 256, "tie_word_embeddings": true,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "eos_token_id": 2, "hidden_act": "silu"})";

class ModelForms : public ::testing::Test {
 protected:
  void SetUp() override {
    write_model(at("hf"));
    scratch_.write("data.jsonl", "{\"text\": \"a b c d e f g\"}\n{\"text\": \"h i j k\"}\n");
    HostTensor row = HostTensor::of<int32_t>({1, 4}, {3, 14, 15, 9});
    weights::NamedTensor named{"input_ids", &row};
    weights::write_safetensors(at("x.safetensors"), std::span(&named, 1));
  }
  fs::path at(const std::string& name) const { return scratch_ / name; }

  static void write_model(const fs::path& directory) {
    fs::create_directories(directory);
    write_file_atomically(directory / "config.json", kConfig);
    fs::copy(fs::path(STRATA_SOURCE_DIR) / "tests/testdata/data/smollm2_tokenizer.json",
             directory / "tokenizer.json");
    auto model = models::build_model(directory);
    nn::Structure structure(*model, {nn::ScanMode::off, 0, {}}, model->ties());
    std::vector<HostTensor> tensors;
    std::vector<weights::NamedTensor> named;
    uint32_t word = 7;
    for (const sharding::Slot& s : structure.manifest().slots()) {
      tensors.emplace_back(DType::f32, s.type.sizes());
      for (float& v : tensors.back().data<float>()) {
        word = word * 1664525u + 1013904223u;
        v = static_cast<float>(word >> 8) / static_cast<float>(1 << 24) - 0.5f;
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      named.push_back({structure.manifest().slots()[i].name, &tensors[i]});
    }
    weights::write_safetensors(directory / "model.safetensors", named);
  }

  Outcome command(std::vector<std::string> arguments) {
    return run({std::move(arguments), {}, at("cache")});
  }
  Outcome train(const std::string& model, const std::string& output, const char* rate) {
    scratch_.write("sft.toml", "[train]\nrows = 1\nrow_tokens = 16\n[sft]\nsteps = 1\n");
    return command({"train", "sft", at("sft.toml").string(), "--set", "model.path=" + model,
                    "--set", "run.output=" + at(output).string(), "--set",
                    "data.train=" + at("data.jsonl").string(), "--set",
                    std::string("optimizer.lr=") + rate});
  }
  std::string ok(const Outcome& o) {
    EXPECT_EQ(o.status, 0) << o.err;
    return o.out;
  }
  // What each command has to say of a model.
  std::vector<std::string> said_of(const fs::path& model) {
    const std::string path = model.string();
    std::vector<std::string> out;
    ok(command({"score", "--model", path, "--input", at("x.safetensors").string(), "--out",
                at("y.safetensors").string()}));
    out.push_back(read_file(at("y.safetensors")));
    out.push_back(ok(command({"generate", "--model", path, "--prompt", "a b", "--temperature", "0",
                              "--max-new-tokens", "4"})));
    out.push_back(ok(command({"lint", "--model", path, "--json"})));
    Json plan = parse_json(ok(command({"plan", "--model", path, "--json"})), "plan");
    out.push_back(plan.value("parameters", Json()).dump());
    ok(command({"inspect", path}));
    return out;
  }

  Scratch scratch_;
};

TEST_F(ModelForms, EveryCommandTakesEveryForm) {
  // A step at rate 0 makes a checkpoint of the same weights.
  ok(train(at("hf").string(), "run", "1e-30"));
  const std::vector<std::string> expected = said_of(at("hf"));
  std::vector<fs::path> forms{at("run"), at("run/checkpoints/step-00000001"), at("run/export")};
  for (const char* axis : {"0", "1", "-1"}) {
    for (const char* to : {"stacked", "cycle"}) {
      forms.push_back(at(std::string(to) + axis));
      ok(command(
          {"convert", at("hf").string(), forms.back().string(), "--to", to, "--axis", axis}));
    }
  }
  for (const fs::path& form : forms) EXPECT_EQ(said_of(form), expected) << form;
  // Converted back, and trained from.
  for (const char* form : {"run", "stacked1", "cycle-1"}) {
    const std::string name = form;
    ok(command({"convert", at(name).string(), at(name + ".hf").string(), "--to", "hf"}));
    ok(train(at(name).string(), name + ".run", "1e-3"));
    EXPECT_EQ(said_of(at(name + ".hf")), expected) << name;
  }
  EXPECT_EQ(read_file(at("stacked1.run/export/model.safetensors")),
            read_file(at("run.run/export/model.safetensors")));
}

TEST_F(ModelForms, FlagsThatContradictTheTensorsAreAdvice) {
  ok(command({"convert", at("hf").string(), at("tree").string(), "--to", "stacked"}));
  Json config = parse_json(kConfig, "config");
  config["scan_layers"] = false;
  write_file_atomically(at("tree/config.json"), config.dump());
  config["scan_layers"] = true;
  write_file_atomically(at("hf/config.json"), config.dump());
  for (const char* form : {"tree", "hf"}) {
    Outcome o = command({"score", "--model", at(form).string(), "--input",
                         at("x.safetensors").string(), "--out", at("y.safetensors").string()});
    ok(o);
    EXPECT_NE(o.err.find("the tensors decide"), std::string::npos) << form << o.err;
  }
}

// A run that ends before its last step is not taken for a finished one, and goes on.
TEST_F(ModelForms, AnInterruptedRunSaysSo) {
  scratch_.write("sft.toml",
                 "[train]\nrows = 1\nrow_tokens = 16\naccumulate = 2\n[sft]\nsteps = 2\n");
  auto sft = [&](const char* output, std::vector<std::string> more) {
    std::vector<std::string> arguments{"train", "sft", at("sft.toml").string()};
    for (const std::string& set :
         {"model.path=" + at("hf").string(), "run.output=" + at(output).string(),
          "data.train=" + at("data.jsonl").string(), std::string("optimizer.lr=1e-3")}) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command(arguments);
  };
  ok(sft("whole", {}));
  Outcome first = sft("parts", {"--json", "--set", "run.max_seconds=1e-9"});
  EXPECT_EQ(first.status, 130) << first.err;
  EXPECT_NE(first.err.find("cli.interrupted"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("--resume"), std::string::npos) << first.err;
  EXPECT_EQ(parse_json(first.out, "stdout")["interrupted"], true);
  ok(sft("parts", {"--resume"}));
  EXPECT_EQ(read_file(at("parts/export/model.safetensors")),
            read_file(at("whole/export/model.safetensors")));
}

TEST_F(ModelForms, WhatCannotBeReadIsSaid) {
  fs::create_directories(at("empty/checkpoints"));
  for (const char* name : {"score", "generate", "lint", "plan"}) {
    std::vector<std::string> arguments{name, "--model", at("empty").string()};
    if (std::string(name) == "score") {
      for (const char* more : {"--input", "x", "--out", "y"}) arguments.push_back(more);
    }
    if (std::string(name) == "generate") arguments.insert(arguments.end(), {"--prompt", "a"});
    expect_error(command(arguments), 4, "checkpoint.no_latest", {at("empty").string()});
  }
  expect_error(train(at("empty").string(), "r", "1"), 4, "checkpoint.no_latest");
}

// The weights of both names of a tied parameter are there and differ.
TEST_F(ModelForms, ATiedParameterUnderTwoNames) {
  auto source = weights::open_source(at("hf"));
  std::vector<HostTensor> tensors;
  std::vector<weights::NamedTensor> named;
  for (const weights::TensorView& t : source->tensors()) tensors.push_back(weights::to_host(t));
  for (size_t i = 0; i < tensors.size(); ++i) {
    named.push_back({source->tensors()[i].name, &tensors[i]});
  }
  HostTensor head = weights::to_host(source->get("model.embed_tokens.weight"));
  named.push_back({"lm_head.weight", &head});
  for (bool same : {true, false}) {
    const fs::path directory = at(same ? "same" : "other");
    fs::create_directories(directory);
    for (const char* file : {"config.json", "tokenizer.json"}) {
      fs::copy(at("hf") / file, directory / file);
    }
    if (!same) head.set(5, head.at(5) + 1);
    weights::write_safetensors(directory / "model.safetensors", named);
    Outcome o = command(
        {"generate", "--model", directory.string(), "--prompt", "a", "--max-new-tokens", "1"});
    if (same) ok(o);
    if (!same) {
      expect_error(o, 3, "checkpoint.tied", {"'lm_head.weight'", "'model.embed_tokens.weight'"});
    }
  }
}

}  // namespace
}  // namespace strata::end_to_end
