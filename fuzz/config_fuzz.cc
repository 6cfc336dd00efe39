// Any bytes as a config.json: either an Error, or a model whose layers plan themselves.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/models/registry.h"
#include "strata/nn/structure.h"

// NOLINTNEXTLINE: the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    strata::Json config = strata::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    auto model = strata::models::build_model(config, "fuzz");
    strata::nn::Structure structure(*model, {}, model->ties());
    if (structure.manifest().slots().empty()) std::abort();
  } catch (const strata::Error& e) {
    if (e.code() == strata::Code::internal) std::abort();
  }
  return 0;
}
