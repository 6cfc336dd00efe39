// The file that `strata score` writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "strata/runtime/array.h"
#include "strata/sharding/manifest.h"

namespace strata::cli {

// Throws unless a file can appear at `path`: its directory is there ("cli.output_missing"), may be
// written to ("cli.output_denied"), and `path` is no directory ("cli.output_directory") and no
// device ("cli.output_special"). So a wrong path is told before the work and not after it.
void check_output(const std::filesystem::path& path);
// Throws ("cli.output_is_input") when `path` is one of the files that are read.
void check_not_read(const std::filesystem::path& path, std::span<const std::filesystem::path> read);

struct ScoreFile {
  int64_t tensors = 0;
  uint64_t bytes = 0;  // of the tensors
};

// Writes the results of rl::score_function to a safetensors file: `logits`, `token_logprobs`,
// `loss` with dims [1], and, when `results` holds gradients, `grad.NAME` for each parameter; a
// stacked slot is taken apart into its layers. One result at a time is held on the host. `path`
// then holds the whole file, or what it held before. `check` is called between pieces; what it
// throws stops the writing.
ScoreFile write_scores(
    const std::filesystem::path& path, const sharding::Manifest& manifest,
    std::span<const runtime::Array> results, const std::function<void()>& check = [] {});

}  // namespace strata::cli
