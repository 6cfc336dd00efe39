// Conversion of a GGUF file to a Hugging Face directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "strata/base/dtype.h"

namespace strata::weights {

struct ImportOptions {
  DType dtype = DType::f32;  // or bf16: rounded to nearest even
  uint64_t max_shard_bytes = 5'000'000'000;
  // Called between pieces; what it throws stops the import, of which nothing is left then.
  std::function<void()> check = {};
};

struct ImportReport {
  int64_t tensors = 0;
  int64_t parameters = 0;
  uint64_t bytes = 0;  // of the weights written
  double seconds = 0;
};

// Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
// chat_template.jinja (when the file has a template) and the weights to `directory`, which must not
// exist or be empty; it appears whole or not at all. A progress line is drawn on a terminal.
// Memory above the map stays within a few MiB. Throws as GgufFile, plan_gguf_model,
// read_gguf_tokenizer and write_directory_atomically.
ImportReport import_gguf(const std::filesystem::path& file, const std::filesystem::path& directory,
                         const ImportOptions& options = {});

}  // namespace strata::weights
