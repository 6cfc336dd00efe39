// libFuzzer target: any bytes as a GGUF file. Either an Error, or metadata and tensors that can be
// read to the last byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "strata/base/error.h"
#include "strata/weights/gguf.h"

namespace {

using strata::weights::GgufIndex;
using strata::weights::GgufTensor;
using strata::weights::GgufValue;

void decode_first_row(const GgufTensor& t) {
  bool small = t.row_elements() > 0 && t.row_elements() <= 1 << 16;
  if (!small || t.bytes.empty() || !strata::weights::can_dequantise(*t.type)) return;
  std::vector<float> row(static_cast<size_t>(t.row_elements()));
  strata::weights::dequantise(*t.type, t.bytes.first(t.row_bytes()), row, "fuzz");
}

void read_value(const GgufValue& value) {
  int64_t whole = 0;
  double real = 0;
  value.to_int(whole);
  value.to_double(real);
  value.ints();
  value.doubles();
  size_t sum = 0;
  for (std::string_view s : value.strings()) {
    for (char c : s) sum += static_cast<size_t>(c != 0);
  }
  if (sum > value.raw.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    GgufIndex index = strata::weights::parse_gguf(file, "fuzz");
    for (const auto& pair : index.metadata) read_value(pair.second);
    for (const GgufTensor& t : index.tensors) {
      if (!t.bytes.empty() && t.offset + t.bytes.size() > size) std::abort();
      decode_first_row(t);
    }
  } catch (const strata::Error&) {
  }
  return 0;
}
