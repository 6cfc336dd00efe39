// Any bytes as a tokenizer.json: either an Error, or a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "strata/base/error.h"
#include "strata/data/tokenizer.h"

// NOLINTNEXTLINE: the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    strata::data::Tokenizer tokenizer = strata::data::Tokenizer::from_json(bytes, "fuzz");
    for (std::string_view text : {bytes.substr(0, 256), std::string_view("a 12\xc3\xa9<|x|>\n")}) {
      std::vector<int32_t> ids = tokenizer.encode(text);
      strata::data::StreamDecoder stream(tokenizer);
      std::string joined;
      for (int32_t id : ids) joined += stream.push(id);
      joined += stream.finish();
      if (joined != tokenizer.decode(ids)) std::abort();
    }
  } catch (const strata::Error& e) {
    if (e.code() == strata::Code::internal) std::abort();
  }
  return 0;
}
