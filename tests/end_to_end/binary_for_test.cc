#include "end_to_end/binary_for_test.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "strata/base/file.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_of(const std::map<std::string, std::string>& set) {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    std::string entry = *e;
    if (set.count(entry.substr(0, entry.find('='))) == 0) out.push_back(entry);
  }
  for (const auto& variable : set) out.push_back(variable.first + "=" + variable.second);
  return out;
}

// The child's standard input, output and error.
struct Streams {
  std::string in, out, err;
};

// Starts the binary as the user nobody. Between fork and exec only system calls are made.
pid_t start_as_nobody(const Streams& streams, char* const* words, char* const* environment) {
  pid_t pid = ::fork();
  if (pid != 0) return pid;
  int in = ::open(streams.in.c_str(), O_RDONLY);
  int out = ::open(streams.out.c_str(), O_WRONLY | O_CREAT, 0600);
  int err = ::open(streams.err.c_str(), O_WRONLY | O_CREAT, 0600);
  bool fine = ::dup2(in, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2;
  constexpr id_t kNobody = 65534;
  fine = fine && ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
  if (fine) ::execve(STRATA_BINARY, words, environment);
  ::_exit(126);
}

pid_t start(const Streams& streams, char* const* words, char* const* environment) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, streams.in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, streams.out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, streams.err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = -1;
  int failure = ::posix_spawn(&pid, STRATA_BINARY, &actions, nullptr, words, environment);
  posix_spawn_file_actions_destroy(&actions);
  return failure == 0 ? pid : -1;
}

}  // namespace

Running::Running(const Request& request) {
  Streams streams{(scratch_ / "in").string(), (scratch_ / "out").string(),
                  (scratch_ / "err").string()};
  write_file_atomically(streams.in, request.input);
  fs::path cache = request.cache.empty() ? scratch_ / "cache" : request.cache;
  std::map<std::string, std::string> variables = request.environment;
  variables.insert({{"STRATA_DEPS", STRATA_DEPS_DIR}, {"STRATA_CACHE", cache.string()}});
  std::vector<std::string> words = request.arguments;
  words.insert(words.begin(), STRATA_BINARY);
  std::vector<std::string> environment = environment_of(variables);
  bool as_nobody = request.unprivileged && ::geteuid() == 0;
  pid_ = (as_nobody ? start_as_nobody : start)(streams, pointers(words).data(),
                                               pointers(environment).data());
  EXPECT_GT(pid_, 0) << STRATA_BINARY;
}

Running::~Running() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
}

bool Running::ended() {
  if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
  return pid_ <= 0;
}

void Running::signal(int number) {
  if (!ended()) ::kill(pid_, number);
}

Outcome Running::wait() {
  if (pid_ > 0) ::waitpid(pid_, &status_, 0);
  pid_ = -1;
  int status = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  return {status, out(), err()};
}

std::string Running::out() const { return read_file(scratch_ / "out"); }
std::string Running::err() const { return read_file(scratch_ / "err"); }

Outcome run(const Request& request) { return Running(request).wait(); }

bool permissions_bind() {
  return run({.arguments = {"--version"}, .unprivileged = true}).status == 0;
}

fs::path oracle(const std::string& name) {
  return fs::path(STRATA_SOURCE_DIR) / "tests/testdata/oracles" / name;
}

void expect_error(const Outcome& outcome, int status, const std::string& id,
                  const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.status, status) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  std::vector<std::string> wanted = parts;
  wanted.insert(wanted.end(), {"strata: error: ", ": expected ", ", got ", "[" + id + "]"});
  for (const std::string& part : wanted) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << "\nis not in\n" << outcome.err;
  }
}

}  // namespace strata::end_to_end
