#include "strata/checkpoint/load_parameters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "strata/base/error.h"
#include "strata/checkpoint/tied_names.h"
#include "strata/runtime/array_builder.h"

namespace strata::checkpoint {
namespace {

using weights::TensorSource;
using weights::TensorView;
using weights::Wanted;

// Whether all exponent bits of a float32 are set.
bool is_odd(uint32_t bits) { return (bits & 0x7f800000u) == 0x7f800000u; }

void check_finite(const TensorView& tensor, std::span<const std::byte> floats,
                  const TensorSource& source) {
  for (size_t i = 0; i < floats.size() / 4; ++i) {
    uint32_t bits;
    std::memcpy(&bits, floats.data() + 4 * i, 4);
    if (!is_odd(bits)) continue;
    fail({.id = "checkpoint.not_finite",
          .where = source.path().string() + ", tensor '" + tensor.name + "'",
          .expected = "finite weights",
          .got = std::to_string(std::bit_cast<float>(bits)) + " at element " + std::to_string(i),
          .code = Code::data_loss});
  }
}

// Room for the largest tensor that has to be widened. It is made once: buffers that come and go
// between the arrays under construction leave holes, which cost as much again.
HostTensor storage_for(std::span<const Wanted> wanted, const TensorSource& source) {
  int64_t largest = 0;
  for (const Wanted& w : wanted) {
    if (source.get(w.name).dtype != DType::f32) largest = std::max(largest, element_count(w.dims));
  }
  return HostTensor(DType::f32, {largest});
}

// The tensor's elements as float32: the mapped bytes themselves, or in one of the buffers.
std::span<const std::byte> as_float(const TensorView& tensor, HostTensor& storage,
                                    std::vector<std::byte>& gathered) {
  std::span<const std::byte> bytes = weights::contiguous(tensor, gathered);
  if (tensor.dtype == DType::f32) return bytes;
  auto out = storage.data<float>().subspan(0, static_cast<size_t>(element_count(tensor.dims)));
  if (tensor.dtype == DType::bf16 || tensor.dtype == DType::f16) {
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      out[i] = tensor.dtype == DType::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
    }
  } else {
    HostTensor wide = convert(weights::to_host(tensor), DType::f32);
    std::memcpy(out.data(), wide.bytes(), wide.byte_size());
  }
  return std::as_bytes(out);
}

}  // namespace

std::vector<runtime::Array> load_parameters(const sharding::Manifest& manifest,
                                            const TensorSource& tree,
                                            const runtime::ClientPtr& client,
                                            const LoadOptions& options) {
  std::vector<Wanted> wanted;
  for (const sharding::Slot& slot : manifest.slots()) {
    for (Wanted& w : members_of(slot)) wanted.push_back(std::move(w));
  }
  auto unstacked = weights::unstack(tree, wanted, options.form);
  const TensorSource& source = unstacked ? *unstacked : tree;
  weights::check_total(source, wanted, with_aliases(options.ignorable, manifest));
  check_tied(source, manifest);
  std::vector<runtime::SpecPtr> specs = specs_of(manifest.slots(), options.mesh, DType::f32);
  std::vector<runtime::Array> out;
  HostTensor storage = storage_for(wanted, source);
  std::vector<std::byte> gathered;
  for (const sharding::Slot& slot : manifest.slots()) {
    runtime::ArrayBuilder builder(client, specs[out.size()]);
    int64_t k = 0;
    for (const Wanted& w : members_of(slot)) {
      const TensorView& tensor = source.get(w.name);
      std::span<const std::byte> floats = as_float(tensor, storage, gathered);
      if (options.check_finite) check_finite(tensor, floats, source);
      builder.write(layer_box(slot, k++), floats);
      source.release(tensor);
    }
    out.push_back(builder.finish());
  }
  return out;
}

}  // namespace strata::checkpoint
