// generation_config.json: how a model wants to be sampled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/sample/settings.h"

namespace strata::sample {

struct GenerationConfig {
  // Tokens that end an answer. Those of generation_config.json replace those of config.json, which
  // count only where the former names none.
  std::vector<int32_t> eos;
  // Settings as the file gives them; `do_sample: false` is temperature 0. What it does not name has
  // SamplingSettings' own default.
  SamplingSettings defaults;
  // Settings of the file that would change answers and are not served here, one line each.
  std::vector<std::string> declined;
};

// Reads DIRECTORY/generation_config.json where there is one, and the ids of config.json. Throws
// data_loss for files that are no JSON objects, invalid_argument "sample.eos" for ids that are no
// token ids, and as set_field and check.
GenerationConfig read_generation_config(const std::filesystem::path& directory);

}  // namespace strata::sample
