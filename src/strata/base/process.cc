#include "strata/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "strata/base/error.h"
#include "strata/base/strings.h"

extern char** environ;

namespace strata {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe(const std::string& name) {
  int ends[2];
  int error = ::pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
  require(error == 0, {.id = "process.pipe",
                       .where = name,
                       .expected = "a pipe",
                       .got = std::strerror(error),
                       .code = Code::resource_exhausted});
  return {ends[0], ends[1]};
}

void close_pipe(const Pipe& pipe) {
  ::close(pipe.read_end);
  ::close(pipe.write_end);
}

// write(2) to a pipe without a reader: EPIPE, but no SIGPIPE for the process.
ssize_t write_quietly(int fd, const std::string& bytes) {
  sigset_t only_pipe;
  sigset_t old;
  sigset_t pending;
  ::sigemptyset(&only_pipe);
  ::sigaddset(&only_pipe, SIGPIPE);
  ::sigpending(&pending);
  bool was_pending = ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &only_pipe, &old);
  ssize_t n = ::write(fd, bytes.data(), bytes.size());
  int error = errno;
  if (n < 0 && error == EPIPE && !was_pending) {
    timespec at_once{};
    ::sigtimedwait(&only_pipe, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  errno = error;
  return n;
}

// Starts argv with the given ends as standard input and output. Returns an errno.
int spawn(std::vector<std::string>& argv, const Pipe& in, const Pipe& out, pid_t& pid) {
  std::vector<char*> pointers;
  for (std::string& a : argv) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.read_end, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t defaults;
  ::sigemptyset(&none);
  ::sigemptyset(&defaults);
  for (int s : {SIGINT, SIGTERM, SIGPIPE}) ::sigaddset(&defaults, s);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int error = ::posix_spawnp(&pid, pointers[0], &actions, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> argv) {
  require(!argv.empty() && !argv[0].empty(), {.id = "process.no_program",
                                              .where = "child process",
                                              .expected = "the name of a program",
                                              .got = "none"});
  name_ = fmt::format("program '{}'", join(argv, " "));
  Pipe in = make_pipe(name_);
  Pipe out;
  try {
    out = make_pipe(name_);
  } catch (...) {
    close_pipe(in);
    throw;
  }
  int error = spawn(argv, in, out, pid_);
  if (error != 0) {
    close_pipe(in);
    close_pipe(out);
    Code code = error == ENOENT                       ? Code::not_found
                : error == EACCES || error == ENOEXEC ? Code::permission_denied
                                                      : Code::resource_exhausted;
    fail({.id = "process.spawn",
          .where = name_,
          .expected = "a program that can be started",
          .got = std::strerror(error),
          .code = code});
  }
  ::close(in.read_end);
  ::close(out.write_end);
  to_child_ = in.write_end;
  from_child_ = out.read_end;
  set_nonblocking(to_child_);
  set_nonblocking(from_child_);
}

ChildProcess::~ChildProcess() {
  kill();
  close_input();
  ::close(from_child_);
}

void ChildProcess::close_input() {
  if (to_child_ >= 0) ::close(to_child_);
  to_child_ = -1;
}

void ChildProcess::kill() {
  if (ended_) return;
  ::kill(-pid_, SIGKILL);
  reap(true);
}

bool ChildProcess::reap(bool block) {
  if (ended_) return true;
  int status = 0;
  pid_t pid = 0;
  do {
    pid = ::waitpid(pid_, &status, block ? 0 : WNOHANG);
  } while (pid < 0 && errno == EINTR);
  if (pid == 0) return false;
  ended_ = true;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

void ChildProcess::fail_died(const char* doing) {
  // Its pipe closes a moment before it can be reaped; a program that closed it and lives is ended.
  double deadline = now() + 0.2;
  while (!reap(false) && now() < deadline) ::poll(nullptr, 0, 5);
  bool by_itself = ended_;
  kill();
  std::string got = !by_itself       ? "one that closed its pipe"
                    : status_ >= 128 ? fmt::format("one ended by signal {}", status_ - 128)
                                     : fmt::format("one that ended with status {}", status_);
  fail({.id = "process.died",
        .where = fmt::format("{} while {}", name_, doing),
        .expected = "a running program",
        .got = got,
        .code = Code::unavailable});
}

void ChildProcess::fail_hung(const char* doing, double timeout_seconds) {
  kill();
  fail({.id = "process.hung",
        .where = fmt::format("{} while {}", name_, doing),
        .expected = fmt::format("an answer within {} s", timeout_seconds),
        .got = "none (the program was ended)",
        .code = Code::deadline_exceeded});
}

// False when the pipe has no reader any more.
bool ChildProcess::flush_input() {
  while (!outgoing_.empty()) {
    ssize_t n = write_quietly(to_child_, outgoing_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    outgoing_.erase(0, static_cast<size_t>(n));
  }
  return true;
}

// False at the end of its output.
bool ChildProcess::drain_output() {
  char buffer[65536];
  // Bounded, so that a program that prints without end cannot fill the memory.
  while (incoming_.size() <= kLongestLine) {
    ssize_t n = ::read(from_child_, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    incoming_.append(buffer, static_cast<size_t>(n));
  }
  return true;
}

// Waits until one of the pipes can move, and moves it. Throws only when the program is gone.
void ChildProcess::pump(double deadline, const char* doing) {
  pollfd fds[2] = {{from_child_, POLLIN, 0}, {to_child_, POLLOUT, 0}};
  if (output_closed_ || incoming_.size() > kLongestLine) fds[0].fd = -1;
  if (outgoing_.empty()) fds[1].fd = -1;
  double left = std::clamp(deadline - now(), 0.0, 1e6);
  ::poll(fds, 2, static_cast<int>(left * 1000) + 1);
  if (fds[0].revents != 0 && !drain_output()) output_closed_ = true;
  bool input_open = fds[1].revents == 0 || flush_input();
  if (!input_open || (output_closed_ && incoming_.find('\n') == std::string::npos))
    fail_died(doing);
}

void ChildProcess::write_line(std::string_view line, double timeout_seconds) {
  constexpr const char* kDoing = "writing a line to it";
  invariant(ended_ || to_child_ >= 0, "process.input_closed", "no line after close_input");
  if (ended_) fail_died(kDoing);
  outgoing_.append(line).push_back('\n');
  double deadline = now() + timeout_seconds;
  if (!flush_input()) fail_died(kDoing);
  while (!outgoing_.empty()) {
    if (now() >= deadline) fail_hung(kDoing, timeout_seconds);
    pump(deadline, kDoing);
  }
}

std::string ChildProcess::take_line(size_t length) {
  std::string line = incoming_.substr(0, length);
  incoming_.erase(0, length + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

std::string ChildProcess::read_line(double timeout_seconds) {
  constexpr const char* kDoing = "reading a line from it";
  double deadline = now() + timeout_seconds;
  while (true) {
    size_t end = incoming_.find('\n');
    if (end != std::string::npos && end <= kLongestLine) return take_line(end);
    if (incoming_.size() > kLongestLine) {
      kill();
      fail({.id = "process.junk",
            .where = name_,
            .expected = "lines of at most 1 MiB",
            .got = "a longer one",
            .code = Code::data_loss});
    }
    if (now() >= deadline) fail_hung(kDoing, timeout_seconds);
    pump(deadline, kDoing);
  }
}

Json ChildProcess::read_json_line(double timeout_seconds) {
  std::string line = read_line(timeout_seconds);
  try {
    return parse_json(line, name_);
  } catch (const Error&) {
    kill();
    // Junk may be binary; the message stays readable.
    std::string shown = line.substr(0, 200);
    if (!is_utf8(shown)) shown = "bytes that are not UTF-8";
    fail({.id = "process.junk",
          .where = name_,
          .expected = "a line of JSON",
          .got = "'" + shown + "'",
          .code = Code::data_loss});
  }
}

int ChildProcess::wait(double timeout_seconds) {
  double deadline = now() + timeout_seconds;
  while (!reap(false)) {
    if (now() >= deadline) fail_hung("waiting for its end", timeout_seconds);
    ::poll(nullptr, 0, 2);
  }
  return status_;
}

}  // namespace strata
