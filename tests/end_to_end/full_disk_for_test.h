// A file system of a few bytes, for tests of full disks.
#pragma once

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstring>
#include <filesystem>
#include <string>

namespace strata::end_to_end {

// A tmpfs mounted on a new directory while it lives. Mounting is root's privilege: where it is not
// given, `mounted` is false and the test should be skipped with `why`.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path path, uint64_t bytes) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    std::string size = "size=" + std::to_string(bytes);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, size.c_str()) == 0;
    if (!mounted_) why_ = std::string("no tmpfs can be mounted here: ") + std::strerror(errno);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  const std::string& why() const { return why_; }
  const std::filesystem::path& path() const { return path_; }
  // Takes all room that is left but `bytes`.
  void fill(uint64_t bytes) const {
    uint64_t room = std::filesystem::space(path_).available;
    std::string filler(room > bytes ? room - bytes : 0, 'x');
    FILE* file = ::fopen((path_ / "filler").c_str(), "w");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(::fwrite(filler.data(), 1, filler.size(), file), filler.size());
    ::fclose(file);
  }
  void empty() const { std::filesystem::remove(path_ / "filler"); }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
  std::string why_;
};

}  // namespace strata::end_to_end
