// Log lines and progress on stderr; stdout belongs to a command's output.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace strata {

// One line on stderr: "strata: TEXT". Thread-safe.
void log_line(std::string_view text);
// "strata: warning: TEXT".
void log_warning(std::string_view text);

// Wall-clock seconds since construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One live line on stderr, redrawn at most ten times a second; silent when stderr is no terminal.
class Progress {
 public:
  explicit Progress(std::string label);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  // `done` of `total` (0 = unknown); `note` stands behind the bar.
  void update(double done, double total, std::string_view note = {});
  // Whether anything is drawn at all.
  bool live() const { return live_; }

 private:
  std::string label_;
  bool live_;
  bool drawn_ = false;
  Stopwatch clock_;
  double last_ = -1;
};

}  // namespace strata
