// Digests: SHA-256 for what is kept on disk or compared between processes, XXH3 for tables in
// memory and quick keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace strata {

// Lower-case hex, 64 characters.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);
// SHA-256 of bytes that come in pieces. Move-only; use from one thread at a time.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far, as above; call it once, last.
  std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Streams the file. Throws as read_file.
std::string sha256_of_file(const std::filesystem::path& path);

uint64_t hash64(std::string_view text, uint64_t seed = 0);

}  // namespace strata
