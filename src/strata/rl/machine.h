// What this machine and process are: for reports and memory metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::rl {

struct MemoryUse {
  uint64_t resident_bytes = 0;
  // The highest so far of this process.
  uint64_t peak_bytes = 0;
};

// From /proc/self/status; zeros where that cannot be read.
MemoryUse memory_use();

// Physical memory of this machine in bytes; 0 where that cannot be read.
uint64_t machine_memory();

// A label and a text.
struct Fact {
  std::string name;
  std::string value;
};

// Processor, usable threads, memory, system and kernel. What cannot be found out is left out.
std::vector<Fact> machine_facts();

}  // namespace strata::rl
