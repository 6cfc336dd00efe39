#include "strata/rl/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include <charconv>
#include <fstream>
#include <optional>

#include "strata/base/strings.h"

namespace strata::rl {
namespace {

// The text behind the first "key<blank>:" or "key=" line of a file of the kernel's or system's.
std::optional<std::string> line_of(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    size_t at = line.find(separator);
    if (at == std::string::npos || trim(std::string_view(line).substr(0, at)) != key) continue;
    return std::string(trim(std::string_view(line).substr(at + 1)));
  }
  return std::nullopt;
}

// "123 kB" in bytes; 0 for anything else.
uint64_t bytes_of(const std::optional<std::string>& text) {
  uint64_t kib = 0;
  if (!text) return 0;
  std::from_chars_result read = std::from_chars(text->data(), text->data() + text->size(), kib);
  return read.ec == std::errc() ? kib * 1024 : 0;
}

int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

MemoryUse memory_use() {
  return {.resident_bytes = bytes_of(line_of("/proc/self/status", "VmRSS", ':')),
          .peak_bytes = bytes_of(line_of("/proc/self/status", "VmHWM", ':'))};
}

uint64_t machine_memory() { return bytes_of(line_of("/proc/meminfo", "MemTotal", ':')); }

std::vector<Fact> machine_facts() {
  std::vector<Fact> facts;
  std::optional<std::string> cpu = line_of("/proc/cpuinfo", "model name", ':');
  if (cpu) facts.push_back({"Processor", *cpu});
  if (int threads = usable_threads(); threads > 0) {
    facts.push_back({"Usable threads", fmt::format("{}", threads)});
  }
  uint64_t memory = machine_memory();
  if (memory > 0) facts.push_back({"Memory", bytes_text(memory)});
  std::optional<std::string> system = line_of("/etc/os-release", "PRETTY_NAME", '=');
  if (system) {
    if (system->size() >= 2 && system->front() == '"')
      *system = system->substr(1, system->size() - 2);
    facts.push_back({"System", *system});
  }
  utsname names{};
  if (::uname(&names) == 0) {
    facts.push_back(
        {"Kernel", fmt::format("{} {} {}", names.sysname, names.release, names.machine)});
  }
  return facts;
}

}  // namespace strata::rl
