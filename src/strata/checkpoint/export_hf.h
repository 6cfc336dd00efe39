// Writing the current parameters as a Hugging Face model directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/checkpoint/tree_reader.h"
#include "strata/sharding/manifest.h"

namespace strata::checkpoint {

// A weight (out, in) that is exported as weight + scale · b a, where a is (rank, in) and b (out,
// rank); unstacked names. a and b are not exported.
struct LowRankMerge {
  std::string weight, a, b;
  double scale = 0;
};

struct ExportOptions {
  DType dtype = DType::f32;  // or bf16: rounded to nearest even
  uint64_t max_shard_bytes = 5'000'000'000;
  ProgressFn progress = {};
  std::vector<LowRankMerge> merges = {};  // formed in float32, then rounded
  bool average = false;  // of export_merged: the weight average that the source keeps
  Json config = {};      // in place of the source's config.json; null = that
};

// Creates `directory` in one piece: the model's parameters under their unstacked names, and
// configuration, generation settings, tokenizer and chat template as `source` (the directory that
// the model was loaded from) has them, with the element type noted in config.json. A tied parameter
// is written once, under its owner's name. Memory grows as in save_checkpoint; with merges by their
// adapters and one weight more.
// Throws invalid_argument (checkpoint.export_dtype, checkpoint.tree), already_exists (file.exists),
// not_found (checkpoint.no_config, checkpoint.merge: no tensor of a merge's names), and as the file
// functions.
void export_hf(const std::filesystem::path& directory, const sharding::Manifest& model,
               const ArrayRefs& parameters, const std::filesystem::path& source,
               const ExportOptions& options = {});

// The same from the files of `source`, a model directory, checkpoint or stacked tree with the
// parameters of `model`, a manifest that stacks nothing. Tensors keep their element types, those
// that a merge changes included; options.dtype is not read. `ignorable` as LoadOptions. Memory
// grows by the layers of a stacked tree too, where its layer dim is not the first. Throws as
// weights::unstack and check_total as well.
void export_merged(const std::filesystem::path& directory, const sharding::Manifest& model,
                   const std::filesystem::path& source, const ExportOptions& options,
                   const std::vector<std::string>& ignorable = {});

// Creates `directory` in one piece with the parameters of the kind adapter alone, as PEFT reads
// them: adapter_model.safetensors with names base_model.model.NAME, and `config` as
// adapter_config.json. Throws already_exists (file.exists) and as the file functions.
void export_adapter(const std::filesystem::path& directory, const sharding::Manifest& model,
                    const ArrayRefs& parameters, const Json& config);

}  // namespace strata::checkpoint
