// Runs the built `strata` as a user does: a process of its own, its output caught in files.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "strata/testing/scratch_directory.h"

namespace strata::end_to_end {

struct Outcome {
  int status = -1;  // exit status, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

using Scratch = strata::testing::ScratchDirectory;

// Runs the binary with `input` as its standard input. Plug-ins are found in the wheels' directory
// and compiled programs are kept in `cache` (empty: nowhere that outlives the test). `environment`
// is set on top of that.
struct Request {
  std::vector<std::string> arguments;
  std::string input = {};
  std::filesystem::path cache = {};
  std::map<std::string, std::string> environment = {};
  // As the user nobody, when this process is root: who may not read and write everything.
  bool unprivileged = false;
};
Outcome run(const Request& request);

// The same while it is under way. The destructor kills what has not ended.
class Running {
 public:
  explicit Running(const Request& request);
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();

  bool ended();  // without waiting
  void signal(int number);
  Outcome wait();
  // What it printed so far.
  std::string out() const;
  std::string err() const;

 private:
  Scratch scratch_;
  pid_t pid_ = -1;  // -1 = not there any more
  int status_ = 0;  // as waitpid has it
};

// Whether file permissions bind the children of a Request that is `unprivileged`, and they can run
// the binary at all: not when root's checkout is closed to others.
bool permissions_bind();

std::filesystem::path oracle(const std::string& name);

// Expects a failed run: this exit status, nothing on stdout, and on stderr "strata: error:", what
// was expected and what came, the id in brackets, and each of `parts`.
void expect_error(const Outcome& outcome, int status, const std::string& id,
                  const std::vector<std::string>& parts = {});

}  // namespace strata::end_to_end
