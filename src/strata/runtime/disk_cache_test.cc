#include "strata/runtime/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "strata/base/file.h"
#include "strata/runtime/test_support.h"

namespace strata::runtime {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public ::testing::Test {
 protected:
  ScratchDir scratch_;
  fs::path dir_ = scratch_.path() / "cache";
};

// Without syncing, which the many damaged files below need not wait for.
void write_plainly(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Sets the time an entry was last used to `seconds` after 2001.
void set_used(const fs::path& path, int64_t seconds) {
  timespec times[2] = {{1000000000 + seconds, 0}, {1000000000 + seconds, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST_F(DiskCacheTest, KeepsAndFinds) {
  DiskCache cache(dir_, 1 << 20);
  EXPECT_FALSE(cache.load("a"));
  EXPECT_TRUE(cache.store("a", "payload"));
  EXPECT_TRUE(cache.store("empty", ""));
  DiskCache other(dir_, 1 << 20);
  EXPECT_EQ(other.load("a"), "payload");
  EXPECT_EQ(other.load("empty"), "");
  other.remove("a");
  EXPECT_FALSE(cache.load("a"));
}

TEST_F(DiskCacheTest, EveryFlippedBitAndEveryCutIsAMiss) {
  DiskCache cache(dir_, 1 << 20);
  ASSERT_TRUE(cache.store("k", "some payload"));
  fs::path file = dir_ / "k.bin";
  std::string good = read_file(file);
  ::testing::internal::CaptureStderr();
  for (size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ (1 << (byte % 8)));
    write_plainly(file, bad);
    EXPECT_FALSE(cache.load("k")) << "byte " << byte;
    EXPECT_FALSE(fs::exists(file)) << "byte " << byte;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    write_plainly(file, good.substr(0, size));
    EXPECT_FALSE(cache.load("k")) << "size " << size;
  }
  write_plainly(file, good + "x");
  EXPECT_FALSE(cache.load("k"));
  write_plainly(file, good);
  EXPECT_EQ(cache.load("k"), "some payload");
  ::testing::internal::GetCapturedStderr();
}

TEST_F(DiskCacheTest, DamageIsToldInOneLine) {
  DiskCache cache(dir_, 1 << 20);
  ASSERT_TRUE(cache.store("k", "some payload"));
  write_file_atomically(dir_ / "k.bin", "junk");
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(cache.load("k"));
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("k.bin is damaged"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST_F(DiskCacheTest, TheLongestUnusedGoFirst) {
  std::string payload(1000, 'x');
  DiskCache cache(dir_, 3500);
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(cache.store(key, payload));
  set_used(dir_ / "a.bin", 30);
  set_used(dir_ / "b.bin", 10);
  set_used(dir_ / "c.bin", 20);
  ASSERT_TRUE(cache.load("b"));  // now the youngest
  ASSERT_TRUE(cache.store("d", payload));
  EXPECT_FALSE(cache.load("c"));
  EXPECT_TRUE(cache.load("a"));
  EXPECT_TRUE(cache.load("b"));
  EXPECT_TRUE(cache.load("d"));
}

TEST_F(DiskCacheTest, WhatAKilledWriterLeftGoesToo) {
  DiskCache cache(dir_, 3000);
  ASSERT_TRUE(cache.store("a", "x"));
  fs::path left = dir_ / "b.bin.tmp-1-1";
  write_file_atomically(left, std::string(2950, 'x'));
  set_used(left, 1);
  ASSERT_TRUE(cache.store("c", "y"));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(cache.load("a"));
}

TEST_F(DiskCacheTest, MoreThanTheLimitIsNotKept) {
  DiskCache cache(dir_, 100);
  EXPECT_FALSE(cache.store("k", std::string(101, 'x')));
  EXPECT_FALSE(cache.load("k"));
}

TEST_F(DiskCacheTest, AnUnusableFolderIsToldOnceAndCostsNothingElse) {
  write_file_atomically(scratch_.path() / "file", "in the way");
  DiskCache cache(scratch_.path() / "file" / "below", 1 << 20);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(cache.load("k"));
  EXPECT_FALSE(cache.store("k", "payload"));
  EXPECT_FALSE(cache.store("k", "payload"));
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("compile cache: not kept"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST_F(DiskCacheTest, AFullDiskIsAMiss) {
  // /dev/full refuses every byte; an entry's temporary name leads there.
  fs::create_directories(dir_);
  fs::path temporary =
      dir_ / ("k.bin.tmp-" + std::to_string(::getpid()) + "-" + std::to_string(::gettid()));
  fs::create_symlink("/dev/full", temporary);
  DiskCache cache(dir_, 1 << 20);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(cache.store("k", std::string(1 << 16, 'x')));
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("No space left"), std::string::npos) << log;
  EXPECT_FALSE(cache.load("k"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(temporary)));
}

TEST_F(DiskCacheTest, APlaceThatCannotBeTakenIsAMiss) {
  fs::create_directories(dir_ / "k.bin" / "in the way");
  DiskCache cache(dir_, 1 << 20);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(cache.store("k", "payload"));
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("an entry that can be put in its place"), std::string::npos) << log;
  EXPECT_NE(log.find("runtime.cache_rename"), std::string::npos) << log;
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 1);
}

TEST_F(DiskCacheTest, NoFolderHoldsNothing) {
  DiskCache cache({}, 1 << 20);
  EXPECT_FALSE(cache.store("k", "payload"));
  EXPECT_FALSE(cache.load("k"));
}

// Several processes write and read one entry: a reader sees a whole payload or none.
TEST_F(DiskCacheTest, ProcessesShareAnEntry) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      DiskCache cache(dir_, 1 << 20);
      std::string payload(20000, static_cast<char>('a' + child));
      bool good = true;
      for (int round = 0; round < 8; ++round) {
        good = good && cache.store("k", payload);
        std::optional<std::string> seen = cache.load("k");
        good = good && seen && seen->size() == payload.size() &&
               seen->find_first_not_of((*seen)[0]) == std::string::npos;
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(DiskCache(dir_, 1 << 20).load("k"));
  int files = 0;
  for (const auto& entry : fs::directory_iterator(dir_)) files += entry.is_regular_file();
  EXPECT_EQ(files, 1);
}

TEST(DefaultCacheDirTest, FollowsTheEnvironment) {
  ASSERT_EQ(::setenv("HOME", "/home/someone", 1), 0);
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("STRATA_CACHE");
  EXPECT_EQ(default_cache_dir(), "/home/someone/.cache/strata");
  ASSERT_EQ(::setenv("XDG_CACHE_HOME", "/xdg", 1), 0);
  EXPECT_EQ(default_cache_dir(), "/xdg/strata");
  ASSERT_EQ(::setenv("STRATA_CACHE", "/mine", 1), 0);
  EXPECT_EQ(default_cache_dir(), "/mine");
}

}  // namespace
}  // namespace strata::runtime
