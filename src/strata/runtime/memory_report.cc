#include "strata/runtime/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "strata/base/strings.h"

namespace strata::runtime {
namespace {

std::string size_text(int64_t bytes) { return bytes_text(static_cast<uint64_t>(bytes)); }

std::string seconds_text(const ProgramTimes& t) {
  return fmt::format("trace {:.2f} s, compile {:.2f} s, load {:.2f} s", t.trace, t.compile, t.load);
}

}  // namespace

MemoryReport memory_report(const Program& program) {
  MemoryReport report;
  report.program = program.name();
  report.times = program.times();
  pjrt::Declinable<pjrt::MemoryStats> stats = program.executable().memory_stats();
  if (!stats.value) {
    report.declined = stats.declined;
    return report;
  }
  report.arguments = stats.value->arguments;
  report.outputs = stats.value->outputs;
  report.aliases = stats.value->aliases;
  report.temporaries = stats.value->temporaries;
  return report;
}

std::string MemoryReport::text() const {
  if (!declined.empty())
    return fmt::format("{}: memory {}; {}", program, declined, seconds_text(times));
  return fmt::format("{}: {} = arguments {} + outputs {} - aliases {} + temporaries {}; {}",
                     program, size_text(total()), size_text(arguments), size_text(outputs),
                     size_text(aliases), size_text(temporaries), seconds_text(times));
}

Json MemoryReport::json() const {
  Json object = {{"program", program},
                 {"trace_seconds", times.trace},
                 {"compile_seconds", times.compile},
                 {"load_seconds", times.load}};
  if (!declined.empty()) {
    object["memory"] = declined;
    return object;
  }
  object["total_bytes"] = total();
  object["argument_bytes"] = arguments;
  object["output_bytes"] = outputs;
  object["alias_bytes"] = aliases;
  object["temporary_bytes"] = temporaries;
  return object;
}

ProcessMemory parse_process_status(std::string_view status) {
  ProcessMemory memory;
  std::istringstream lines{std::string(status)};
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key;
    int64_t kilobytes = 0;
    if (!(words >> key >> kilobytes)) continue;
    if (key == "RssAnon:") memory.anonymous = kilobytes * 1024;
    if (key == "RssShmem:") memory.shared = kilobytes * 1024;
    if (key == "RssFile:") memory.file = kilobytes * 1024;
    if (key == "VmHWM:") memory.peak_total = kilobytes * 1024;
  }
  return memory;
}

ProcessMemory process_memory() {
  std::ifstream file("/proc/self/status");
  std::stringstream text;
  text << file.rdbuf();
  return parse_process_status(text.str());
}

PeakMemory::PeakMemory(double interval_seconds) {
  sample();
  thread_ = std::thread([this, interval_seconds] {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::duration<double>(interval_seconds));
      sample();
    }
  });
}

PeakMemory::~PeakMemory() {
  stop_ = true;
  thread_.join();
}

int64_t PeakMemory::bytes() {
  sample();
  return peak_;
}

void PeakMemory::sample() {
  int64_t now = process_memory().held();
  int64_t seen = peak_;
  while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
  }
}

}  // namespace strata::runtime
