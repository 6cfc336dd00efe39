// Any bytes as a chat template: either an Error, or a text whose marks lie within it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/data/chat_template.h"

// NOLINTNEXTLINE: the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::Json;
  std::string_view source(reinterpret_cast<const char*>(data), size);
  static const Json kMessages = strata::parse_json(
      R"([{"role": "system", "content": "be\nbrief"}, {"role": "user", "content": " h\u00e9 "},
          {"role": "assistant", "content": "<think>a</think>b", "tool_calls":
            [{"function": {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]}])",
      "messages");
  try {
    strata::data::ChatTemplate chat(source, "fuzz", {{"bos_token", "<s>"}});
    strata::data::ChatOptions options;
    options.add_generation_prompt = true;
    options.now = 0;
    strata::data::RenderedChat out = chat.render(kMessages, options);
    size_t done = 0;
    for (const strata::data::Mark& mark : out.text.marks()) {
      if (mark.begin < done || mark.end <= mark.begin || mark.end > out.text.size()) std::abort();
      done = mark.end;
    }
  } catch (const strata::Error& e) {
    if (e.code() == strata::Code::internal) std::abort();
  }
  return 0;
}
