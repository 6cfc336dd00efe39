#include "end_to_end/binary_for_test.h"

#include <fcntl.h>
#include <gtest/gtest.h>
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

int wait_for(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Outcome run(const Request& request) {
  Scratch scratch;
  std::string in = (scratch / "in").string(), out = (scratch / "out").string(),
              err = (scratch / "err").string();
  write_file_atomically(in, request.input);
  fs::path cache = request.cache.empty() ? scratch / "cache" : request.cache;
  std::map<std::string, std::string> variables = request.environment;
  variables.insert({{"STRATA_DEPS", STRATA_DEPS_DIR}, {"STRATA_CACHE", cache.string()}});
  std::vector<std::string> words = request.arguments;
  words.insert(words.begin(), STRATA_BINARY);
  std::vector<std::string> environment = environment_of(variables);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = -1;
  int failure = ::posix_spawn(&pid, STRATA_BINARY, &actions, nullptr, pointers(words).data(),
                              pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0) << STRATA_BINARY;
  if (failure != 0) return {};
  int status = wait_for(pid);
  return {status, read_file(out), read_file(err)};
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
