// Making, listing and removing directories with Strata's errors: where the standard library's
// functions would throw filesystem_error, these throw Error (checkpoint.directory) naming the path,
// with the code not_found, permission_denied, resource_exhausted or data_loss.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata::checkpoint {

// Creates the directory and those above it, where they are missing.
void make_directories(const std::filesystem::path& path);
// The entries, in no particular order; none when there is no such directory.
std::vector<std::filesystem::path> list_directory(const std::filesystem::path& path);
// Removes it with all it holds; harmless when it does not exist.
void remove_directory(const std::filesystem::path& path);
// A new file with this text, durable once it returns. Throws as FileWriter.
void put_text(const std::filesystem::path& path, const std::string& text);

}  // namespace strata::checkpoint
