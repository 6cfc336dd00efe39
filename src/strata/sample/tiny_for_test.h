// A sampler over a small checkpoint; used by tests only.
#pragma once

#include <filesystem>
#include <memory>
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
                     nn::ScanMode scan = nn::ScanMode::automatic) {
    model = models::build_model(directory);
    structure =
        std::make_unique<nn::Structure>(*model, nn::ScanOptions{.mode = scan}, model->ties());
    compiler = std::make_shared<runtime::Compiler>(testing::Executor().client(),
                                                   runtime::CompilerOptions{.cache_dir = {}});
    auto source = weights::open_source(directory / "model.safetensors");
    publish(checkpoint::load_parameters(structure->manifest(), *source, compiler->client(),
                                        {.ignorable = model->ignorable()}));
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
