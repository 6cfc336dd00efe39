// A sampler over a small checkpoint; used by tests only.
#pragma once

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/sample/sampler.h"
#include "strata/testing/executor.h"
#include "strata/weights/tensor_source.h"

namespace strata::sample {

inline std::filesystem::path test_data(const std::string& path) {
  return std::filesystem::path(STRATA_SOURCE_DIR) / "tests/testdata" / path;
}

struct TinyModel {
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  std::shared_ptr<runtime::Compiler> compiler;
  runtime::TablePtr parameters;

  explicit TinyModel(const std::filesystem::path& directory,
                     nn::ScanMode scan = nn::ScanMode::automatic,
                     testing::CpuPlugin plugin = testing::CpuPlugin::newer) {
    model = models::build_model(directory);
    structure =
        std::make_unique<nn::Structure>(*model, nn::ScanOptions{.mode = scan}, model->ties());
    compiler = std::make_shared<runtime::Compiler>(testing::Executor(plugin).client(),
                                                   runtime::CompilerOptions{.cache_dir = {}});
    auto source = weights::open_source(directory / "model.safetensors");
    publish(checkpoint::load_parameters(structure->manifest(), *source, compiler->client(),
                                        {.ignorable = model->ignorable()}));
  }

  // A small llama with `vocabulary` tokens and random weights.
  TinyModel(int64_t vocabulary, uint32_t seed) {
    Json config = {{"model_type", "llama"},       {"vocab_size", vocabulary},
                   {"hidden_size", 16},           {"intermediate_size", 24},
                   {"num_hidden_layers", 2},      {"num_attention_heads", 2},
                   {"num_key_value_heads", 1},    {"max_position_embeddings", 2048},
                   {"tie_word_embeddings", false}};
    model = models::build_model(config, "test");
    structure = std::make_unique<nn::Structure>(*model, nn::ScanOptions{}, model->ties());
    compiler = std::make_shared<runtime::Compiler>(testing::Executor().client(),
                                                   runtime::CompilerOptions{.cache_dir = {}});
    publish(random_weights(seed));
  }

  std::vector<runtime::Array> random_weights(uint32_t seed) const {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(0, 0.4);
    std::vector<runtime::Array> out;
    for (const sharding::Slot& slot : structure->manifest().slots()) {
      HostTensor t(DType::f32, slot.type.sizes());
      for (int64_t i = 0; i < t.size(); ++i) t.set(i, normal(generator));
      out.push_back(runtime::Array::put(compiler->client(), t));
    }
    return out;
  }

  // Makes arrays the parameters of the next version.
  void publish(std::vector<runtime::Array> arrays) {
    std::vector<std::pair<std::string, runtime::Array>> named;
    for (size_t i = 0; i < arrays.size(); ++i) {
      named.emplace_back(structure->manifest().slots()[i].name, std::move(arrays[i]));
    }
    uint64_t version = parameters ? parameters->version() + 1 : 1;
    parameters = runtime::ParameterTable::make(version, std::move(named));
  }

  SamplerSetup setup(SamplerOptions options = {}) const {
    return {model.get(), structure.get(), compiler, std::nullopt, {}, std::move(options)};
  }
};

// A greedy request of exactly `count` new tokens.
inline Request greedy(std::string id, std::vector<int32_t> tokens, int64_t count) {
  Request r{std::move(id), std::move(tokens), {}};
  r.settings.temperature = 0;
  r.settings.max_new_tokens = count;
  r.settings.ignore_eos = true;
  return r;
}

}  // namespace strata::sample
