// How much memory a program needs, from the program itself, and how much this process has.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "strata/base/json.h"
#include "strata/runtime/program.h"

namespace strata::runtime {

// Of one device, in bytes, with the seconds the program took to get ready.
struct MemoryReport {
  std::string program;
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliases = 0;  // outputs that lie in donated arguments
  int64_t temporaries = 0;
  ProgramTimes times;
  // Why the plug-in gives no numbers ("declined: …"); empty when it does.
  std::string declined;

  // What is needed at once: arguments + outputs - aliases + temporaries.
  int64_t total() const { return arguments + outputs - aliases + temporaries; }
  std::string text() const;
  Json json() const;
};

MemoryReport memory_report(const Program& program);

// Resident memory of a process as Linux counts it, in bytes.
struct ProcessMemory {
  int64_t anonymous = 0;   // RssAnon
  int64_t shared = 0;      // RssShmem
  int64_t file = 0;        // RssFile: mapped files, which the kernel can drop
  int64_t peak_total = 0;  // VmHWM: the highest sum of the three

  // What cannot be dropped. On the CPU plug-ins device memory is part of it.
  int64_t held() const { return anonymous + shared; }
};

// Reads the text of /proc/PID/status. Lines that are missing count as 0.
ProcessMemory parse_process_status(std::string_view status);
ProcessMemory process_memory();

// Watches this process's anonymous + shared memory, of which the kernel keeps no peak, from a
// thread of its own until destroyed. Peaks shorter than the interval may be missed.
class PeakMemory {
 public:
  explicit PeakMemory(double interval_seconds = 0.005);
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;
  ~PeakMemory();
  // The highest bytes seen so far, including now.
  int64_t bytes();

 private:
  void sample();

  std::atomic<int64_t> peak_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace strata::runtime
