// The files beside the weights that make a model directory complete.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata::checkpoint {

// Names of the files that are carried from one model directory to another where they exist:
// configuration, generation settings, tokenizer, chat template.
const std::vector<std::string>& model_file_names();

// Copies those of `source` to `target` (durably) except `skip`; returns their names. Throws
// not_found (checkpoint.no_config) when `source` has no config.json, and as the file functions.
std::vector<std::string> copy_model_files(const std::filesystem::path& source,
                                          const std::filesystem::path& target,
                                          const std::vector<std::string>& skip = {});

// What a command reads that is given `path` as a model: `path` itself, or the latest checkpoint of
// the run that it is (said on stderr). Throws not_found (checkpoint.no_latest) for a run without
// one. What no directory is comes back as it is, for its reader to report.
std::filesystem::path model_path(const std::filesystem::path& path);

}  // namespace strata::checkpoint
