#include "strata/base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <array>
#include <memory>

#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  invariant(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
            "hash.sha256", "a SHA-256 context from OpenSSL");
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

void Sha256::update(std::span<const std::byte> bytes) {
  invariant(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "hash.sha256",
            "a SHA-256 context that takes bytes");
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  int ok = EVP_DigestFinal_ex(context_.get(), digest.data(), &length);
  invariant(ok == 1 && length == 32, "hash.sha256", "a SHA-256 digest from OpenSSL");
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned char b : digest) {
    text += kHex[b >> 4];
    text += kHex[b & 15];
  }
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256(std::string_view text) {
  return sha256(std::span(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

std::string sha256_of_file(const std::filesystem::path& path) {
  return sha256(MappedFile(path).bytes());
}

uint64_t hash64(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace strata
