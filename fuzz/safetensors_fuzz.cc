// libFuzzer target: any bytes as a safetensors file. Either an Error, or tensors within the bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "strata/base/error.h"
#include "strata/weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    uint64_t covered = 0;
    for (const auto& t : strata::weights::parse_safetensors(file, "fuzz").tensors) {
      if (t.offset + t.bytes.size() > size) std::abort();
      covered += t.bytes.size();
    }
    if (covered > size) std::abort();
  } catch (const strata::Error&) {
  }
  return 0;
}
