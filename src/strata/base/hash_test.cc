#include "strata/base/hash.h"

#include <gtest/gtest.h>

#include "strata/testing/scratch_directory.h"

namespace strata {
namespace {

TEST(HashTest, Sha256OfTheStandardVectors) {
  EXPECT_EQ(sha256(std::string_view("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(HashTest, Sha256OfPiecesIsThatOfTheWhole) {
  const std::string text(1000, 'x');
  auto bytes = std::as_bytes(std::span(text));
  Sha256 hash;
  for (size_t at = 0; at < bytes.size(); at += 37) {
    hash.update(bytes.subspan(at, std::min<size_t>(37, bytes.size() - at)));
  }
  EXPECT_EQ(hash.hex(), sha256(text));
}

TEST(HashTest, FileAndTextAgree) {
  testing::ScratchDirectory scratch;
  EXPECT_EQ(sha256_of_file(scratch.write("a", "abc")), sha256(std::string_view("abc")));
}

TEST(HashTest, Hash64DependsOnTextAndSeed) {
  EXPECT_EQ(hash64("a"), hash64("a"));
  EXPECT_NE(hash64("a"), hash64("b"));
  EXPECT_NE(hash64("a", 1), hash64("a", 2));
}

}  // namespace
}  // namespace strata
