#include "strata/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

Code code_of_errno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      return Code::resource_exhausted;
    case EEXIST:
      return Code::already_exists;
    default:
      return Code::data_loss;
  }
}

[[noreturn]] void fail_errno(std::string_view id, const std::string& where, std::string expected) {
  int error = errno;
  fail({.id = id,
        .where = where,
        .expected = std::move(expected),
        .got = std::strerror(error),
        .code = code_of_errno(error)});
}

// An open descriptor that closes itself.
struct Fd {
  int fd = -1;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

size_t open_for_reading(const fs::path& path, Fd& out) {
  out.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (out.fd < 0) fail_errno("file.open", path.string(), "a readable file");
  struct stat info {};
  if (::fstat(out.fd, &info) != 0) fail_errno("file.io", path.string(), "a readable file");
  require(S_ISREG(info.st_mode), {.id = "file.not_regular",
                                  .where = path.string(),
                                  .expected = "a regular file",
                                  .got = S_ISDIR(info.st_mode) ? "a directory" : "a special file"});
  return static_cast<size_t>(info.st_size);
}

// Read by every step; set by tests before there are any.
std::function<void(const FileStep&)>& watcher() {
  static std::function<void(const FileStep&)> watch;
  return watch;
}

void announce(FileStep::Kind kind, const fs::path& path, const fs::path& to = {}) {
  if (watcher()) watcher()({kind, path, to});
}

}  // namespace

void watch_file_steps(std::function<void(const FileStep&)> watch) { watcher() = std::move(watch); }

std::string read_file(const fs::path& path) {
  Fd file;
  size_t size = open_for_reading(path, file);
  std::string text;
  try {
    text.resize(size);
  } catch (const std::exception&) {
    errno = ENOMEM;
    fail_errno("file.io", path.string(), "memory for " + bytes_text(size));
  }
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = ::read(file.fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("file.io", path.string(), "a readable file");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  Fd file;
  size_ = open_for_reading(path, file);
  if (size_ == 0) return;
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (p == MAP_FAILED) fail_errno("file.io", path.string(), "a file that can be mapped");
  data_ = static_cast<const std::byte*>(p);
}

MappedFile::MappedFile(MappedFile&& o) noexcept
    : path_(std::move(o.path_)),
      data_(std::exchange(o.data_, nullptr)),
      size_(std::exchange(o.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& o) noexcept {
  std::swap(path_, o.path_);
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(size_t offset, size_t length) const {
  size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t begin = (offset + page - 1) / page * page;
  size_t end = std::min(offset + length, size_) / page * page;
  if (data_ == nullptr || end <= begin) return;
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void will_read(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data());
  const uintptr_t first = begin / page * page;
  // Advice: where it cannot be followed, reading is slower.
  ::madvise(reinterpret_cast<void*>(first), begin + mapped.size() - first, MADV_WILLNEED);
}

FileWriter::FileWriter(const fs::path& path) : path_(path) {
  announce(FileStep::Kind::create, path);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno("file.create", path.string(), "a writable place");
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(path_.c_str());
}

void FileWriter::write(std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    announce(FileStep::Kind::write, path_);
    ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fail_errno("file.write", path_.string() + " at byte " + std::to_string(offset_),
                 "room for " + std::to_string(bytes.size() - done) + " more bytes");
    }
    done += static_cast<size_t>(n);
    offset_ += static_cast<uint64_t>(n);
  }
}

void FileWriter::write(std::string_view text) {
  write({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

void FileWriter::commit() {
  announce(FileStep::Kind::sync_file, path_);
  if (::fsync(fd_) != 0) fail_errno("file.io", path_.string(), "bytes that reach the disk");
  committed_ = true;
}

void sync_directory(const fs::path& path) {
  announce(FileStep::Kind::sync_directory, path);
  Fd dir{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (dir.fd < 0) fail_errno("file.open_dir", path.string(), "a directory");
  if (::fsync(dir.fd) != 0) fail_errno("file.io", path.string(), "a directory that syncs");
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  fs::path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid());
  {
    FileWriter writer(temporary);
    writer.write(text);
    writer.commit();
  }
  replace_file(temporary, path);
}

void replace_file(const fs::path& temporary, const fs::path& path) {
  announce(FileStep::Kind::rename, temporary, path);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    int error = errno;
    ::unlink(temporary.c_str());
    errno = error;
    fail_errno("file.rename", path.string(), "a place that can be replaced");
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

void write_directory_atomically(const fs::path& path,
                                const std::function<void(const fs::path&)>& fill) {
  fs::path target = path.has_filename() ? path : path.parent_path();
  std::error_code ec;
  bool occupied =
      fs::exists(target, ec) && !(fs::is_directory(target, ec) && fs::is_empty(target, ec));
  require(!occupied, {.id = "file.exists",
                      .where = target.string(),
                      .expected = "a directory that does not exist yet",
                      .got = "one that does",
                      .cure = "Choose another name or remove it",
                      .code = Code::already_exists});
  fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  fs::create_directories(parent, ec);
  fs::path temporary = target;
  temporary += ".tmp-" + std::to_string(::getpid());
  fs::remove_all(temporary, ec);
  announce(FileStep::Kind::make_directory, temporary);
  if (::mkdir(temporary.c_str(), 0755) != 0) {
    fail_errno("file.mkdir", temporary.string(), "a writable directory");
  }
  try {
    fill(temporary);
    sync_directory(temporary);
    announce(FileStep::Kind::rename, temporary, target);
    if (::rename(temporary.c_str(), target.c_str()) != 0) {
      fail_errno("file.rename", target.string(), "a place that can be replaced");
    }
  } catch (...) {
    fs::remove_all(temporary, ec);
    throw;
  }
  sync_directory(parent);
}

DirectoryLock::DirectoryLock(const fs::path& directory) {
  fs::path file = directory / ".lock";
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno("file.lock_open", file.string(), "a writable directory");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd_);
    fail({.id = "file.locked",
          .where = directory.string(),
          .expected = "a directory that no other run is using",
          .got = "a lock held by another run",
          .cure = "Wait for it to end or choose another directory",
          .code = Code::failed_precondition});
  }
}

DirectoryLock::~DirectoryLock() { ::close(fd_); }

}  // namespace strata
