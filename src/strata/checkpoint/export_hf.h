// Writing the current parameters as a Hugging Face model directory.
#pragma once

#include <cstdint>
#include <filesystem>

#include "strata/base/dtype.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/checkpoint/tree_reader.h"
#include "strata/sharding/manifest.h"

namespace strata::checkpoint {

struct ExportOptions {
  DType dtype = DType::f32;  // or bf16: rounded to nearest even
  uint64_t max_shard_bytes = 5'000'000'000;
  ProgressFn progress = {};
};

// Creates `directory` in one piece: the model's parameters under their unstacked names, and
// configuration, generation settings, tokenizer and chat template as `source` (the directory that
// the model was loaded from) has them, with the element type noted in config.json. A tied parameter
// is written once, under its owner's name. Memory grows as in save_checkpoint.
// Throws invalid_argument (checkpoint.export_dtype, checkpoint.tree), already_exists (file.exists),
// not_found (checkpoint.no_config), and as the file functions.
void export_hf(const std::filesystem::path& directory, const sharding::Manifest& model,
               const ArrayRefs& parameters, const std::filesystem::path& source,
               const ExportOptions& options = {});

}  // namespace strata::checkpoint
