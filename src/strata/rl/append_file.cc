#include "strata/rl/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

Code code_of(int error) {
  switch (error) {
    case EEXIST:
      return Code::already_exists;
    case ENOENT:
    case ENOTDIR:
      return Code::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
      return Code::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return Code::resource_exhausted;
    default:
      return Code::data_loss;
  }
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | (mode == Mode::fresh ? O_EXCL : 0);
  fd_ = ::open(path_.c_str(), flags, 0666);
  if (fd_ >= 0) return;
  int error = errno;
  bool exists = error == EEXIST;
  fail({.id = exists ? "rl.metrics_exists" : "rl.metrics_open",
        .where = path_.string(),
        .expected = exists ? "no file yet" : "a file that can be written",
        .got = std::strerror(error),
        .cure = exists ? "Resume that run, or give this one a directory of its own" : "",
        .code = code_of(error)});
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::string_view record) {
  off_t before = ::lseek(fd_, 0, SEEK_END);
  size_t done = 0;
  while (done < record.size()) {
    ssize_t n = ::write(fd_, record.data() + done, record.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int error = errno;
      // Best effort: a device cannot be cut.
      if (before >= 0 && ::ftruncate(fd_, before) != 0) errno = error;
      fail({.id = "rl.metrics_write",
            .where = path_.string(),
            .expected = "room for another record",
            .got = std::strerror(error),
            .code = code_of(error)});
    }
    done += static_cast<size_t>(n);
  }
}

}  // namespace strata::rl
