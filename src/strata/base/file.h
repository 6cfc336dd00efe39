// Files: whole reads, read-only maps, atomic and durable writes. Every error names the path.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace strata {

// A change of the file system that the functions here are about to make: bytes written, a file or
// directory synced, a name made, replaced or removed. Reading changes nothing.
struct FileStep {
  enum class Kind : uint8_t { create, write, sync_file, sync_directory, make_directory, rename };
  Kind kind;
  std::filesystem::path path;
  std::filesystem::path to = {};  // of a rename
};
// For tests of crashes: calls `watch` before each step from now on, from whichever thread makes it;
// what it throws stops the step. An empty function ends that.
void watch_file_steps(std::function<void(const FileStep&)> watch);

// The whole file. Throws not_found, permission_denied, invalid_argument (a directory) or data_loss.
std::string read_file(const std::filesystem::path& path);

// A read-only private map of a whole file; move-only. Empty files map to an empty span.
// The bytes must not be read after the map is destroyed. Thread-safe for reading.
class MappedFile {
 public:
  // Throws as read_file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  // Tells the kernel that [offset, offset + length) was consumed, so that its resident pages go.
  void release(size_t offset, size_t length) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Tells the kernel that bytes of a map are about to be read, so that it fetches them meanwhile.
void will_read(std::span<const std::byte> mapped);

// Sequential writer to a new file: `write`, then `commit` makes the bytes durable (fsync). Without
// commit the file is removed by the destructor. Throws resource_exhausted on a full disk,
// permission_denied, or data_loss; each names the path and the byte offset.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();
  uint64_t offset() const { return offset_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t offset_ = 0;
  bool committed_ = false;
};

// Writes to a temporary name in the same directory, syncs, renames over `path`, syncs the
// directory: afterwards `path` holds either the old bytes or all of the new ones.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Renames a finished, synced file over `path` and syncs the directory. When that fails, `temporary`
// is removed and `path` is as before.
void replace_file(const std::filesystem::path& temporary, const std::filesystem::path& path);

// Builds a whole directory under a temporary sibling name with `fill(temporary)`, syncs it and
// renames it to `path`. Throws already_exists when `path` exists and is not an empty directory; a
// `fill` that throws leaves nothing behind.
void write_directory_atomically(const std::filesystem::path& path,
                                const std::function<void(const std::filesystem::path&)>& fill);

// fsync of a directory, so that the names in it survive a crash.
void sync_directory(const std::filesystem::path& path);

// Exclusive advisory lock on `directory`/.lock, held until destruction. Throws
// failed_precondition naming the directory when another process (or this one) holds it.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock();

 private:
  int fd_ = -1;
};

}  // namespace strata
