// Any bytes as a checkpoint's manifest.json: either an Error, or an index that writes itself back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_index.h"

// NOLINTNEXTLINE: the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::checkpoint::CheckpointIndex;
  try {
    strata::Json json = strata::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    strata::Json written = CheckpointIndex::from_json(json, "fuzz").to_json();
    if (CheckpointIndex::from_json(written, "fuzz").to_json() != written) std::abort();
  } catch (const strata::Error& e) {
    if (e.code() == strata::Code::internal) std::abort();
  }
  return 0;
}
