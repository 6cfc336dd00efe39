#include "strata/base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "strata/base/error.h"
#include "strata/testing/scratch_directory.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }
  testing::ScratchDirectory scratch_;
  const fs::path& dir_ = scratch_.path();
};

TEST_F(FileTest, AtomicWriteReplacesTheWholeFile) {
  write_file_atomically(dir_ / "a", "first, longer");
  write_file_atomically(dir_ / "a", "second");
  EXPECT_EQ(read_file(dir_ / "a"), "second");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, MapSeesTheBytesAndOutlivesAMove) {
  write_file_atomically(dir_ / "a", std::string(10000, 'x'));
  MappedFile first(dir_ / "a");
  MappedFile second = std::move(first);
  EXPECT_EQ(first.bytes().size(), 0u);
  ASSERT_EQ(second.bytes().size(), 10000u);
  second.release(0, 10000);
  EXPECT_EQ(static_cast<char>(second.bytes()[9999]), 'x');
}

TEST_F(FileTest, AnEmptyFileMapsToNothing) {
  write_file_atomically(dir_ / "empty", "");
  EXPECT_TRUE(MappedFile(dir_ / "empty").bytes().empty());
  EXPECT_EQ(read_file(dir_ / "empty"), "");
}

TEST_F(FileTest, AWriterWithoutCommitLeavesNothing) {
  { FileWriter(dir_ / "a").write("half"); }
  EXPECT_EQ(entries(), 0u);
  FileWriter writer(dir_ / "b");
  writer.write("whole");
  writer.commit();
  EXPECT_EQ(writer.offset(), 5u);
  EXPECT_EQ(read_file(dir_ / "b"), "whole");
}

TEST_F(FileTest, ADirectoryAppearsWholeOrNotAtAll) {
  auto fill = [](const fs::path& to) { write_file_atomically(to / "x", "1"); };
  write_directory_atomically(dir_ / "d", fill);
  EXPECT_EQ(read_file(dir_ / "d" / "x"), "1");
  auto broken = [&](const fs::path& to) {
    fill(to);
    fail({.id = "test.broken", .got = "a fault"});
  };
  EXPECT_THROW(write_directory_atomically(dir_ / "e", broken), Error);
  EXPECT_FALSE(fs::exists(dir_ / "e"));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, AnEmptyDirectoryMayBeReplaced) {
  fs::create_directory(dir_ / "d");
  write_directory_atomically(dir_ / "d",
                             [](const fs::path& to) { write_file_atomically(to / "x", "1"); });
  EXPECT_TRUE(fs::exists(dir_ / "d" / "x"));
}

TEST_F(FileTest, ALockGoesWithItsOwner) {
  { DirectoryLock lock(dir_); }
  EXPECT_NO_THROW(DirectoryLock{dir_});
}

}  // namespace
}  // namespace strata
