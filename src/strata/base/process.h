// ChildProcess: a program that is spoken to line by line (reward programs, peers), with a deadline
// on every exchange. A program that dies, hangs or prints junk is an error, never a wait for ever.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"

namespace strata {

// Neither copied nor moved. Not thread-safe. After any error the program is
// ended (SIGKILL to its process group), because what it says next cannot be matched to a question.
class ChildProcess {
 public:
  // Starts argv[0] (looked up in PATH) with pipes at its standard input and output; its standard
  // error is ours. It leads a process group of its own, so Ctrl-C reaches it only through us.
  // Throws not_found or permission_denied when it cannot be started.
  explicit ChildProcess(std::vector<std::string> argv);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  // Ends it.
  ~ChildProcess();

  // Writes `line` and a line break. Reads what the program prints meanwhile, so two full pipes do
  // not wait for each other. Throws deadline_exceeded ("process.hung") or unavailable
  // ("process.died"). Not to be called after close_input (invariant).
  void write_line(std::string_view line, double timeout_seconds);
  // The next line without its break. Throws as write_line, and data_loss ("process.junk") for a
  // line longer than 1 MiB.
  std::string read_line(double timeout_seconds);
  // The next line as JSON. Throws as read_line, and data_loss ("process.junk") showing the line
  // when it is not JSON.
  Json read_json_line(double timeout_seconds);
  // Closes its standard input: the usual sign to end.
  void close_input();
  // Waits for its end; the exit status, or 128 + the number of the signal that ended it. Throws
  // deadline_exceeded ("process.hung").
  int wait(double timeout_seconds);
  // Ends it now. Harmless when it has ended.
  void kill();

  pid_t pid() const { return pid_; }

 private:
  void pump(double deadline, const char* doing);
  bool flush_input();
  bool drain_output();
  bool reap(bool block);
  [[noreturn]] void fail_died(const char* doing);
  [[noreturn]] void fail_hung(const char* doing, double timeout_seconds);
  std::string take_line(size_t length);

  std::string name_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
  bool output_closed_ = false;
  std::string outgoing_;  // not yet accepted by the pipe
  std::string incoming_;  // read and not yet handed out
};

}  // namespace strata
