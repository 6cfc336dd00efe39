// Digests: SHA-256 for what is kept on disk or compared between processes, XXH3 for tables in
// memory and quick keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace strata {

// Lower-case hex, 64 characters.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);
// Streams the file. Throws as read_file.
std::string sha256_of_file(const std::filesystem::path& path);

uint64_t hash64(std::string_view text, uint64_t seed = 0);

}  // namespace strata
