// What is in a weights file: names, element types, shapes, sizes and metadata, for people and for
// programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/base/host_tensor.h"
#include "strata/base/json.h"

namespace strata::weights {

struct InspectionRow {
  std::string name;
  std::string dtype;  // Strata's spelling ("bf16"), or GGML's for GGUF ("Q4_K")
  Dims dims;
  uint64_t bytes = 0;
  std::string file;         // of the shards of a directory; else empty
  std::string sha256 = {};  // of the bytes, where the files tell it
};

struct Inspection {
  std::string kind;  // "safetensors", "hf_directory", "gguf"
  std::filesystem::path path;
  Json metadata;  // an object; long arrays are stated as their type and length
  std::vector<InspectionRow> rows;

  int64_t parameters() const;
  uint64_t bytes() const;
};

// Describes a safetensors file, a Hugging Face directory or a GGUF file, told apart by what is
// there and how the file begins. Tensor data is not read. Throws not_found, permission_denied,
// data_loss as the readers do, and invalid_argument on a file that begins as none of them.
Inspection inspect_path(const std::filesystem::path& path);

// A table for a terminal: a heading, the metadata, one line a tensor, totals.
std::string to_text(const Inspection& inspection);

// {"kind", "path", "metadata", "tensors": [{"name", "dtype", "shape", "bytes", "sha256"?,
//  "file"?}],
//  "parameters", "bytes"}
Json to_json(const Inspection& inspection);

}  // namespace strata::weights
