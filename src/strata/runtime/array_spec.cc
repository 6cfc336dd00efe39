#include "strata/runtime/array_spec.h"

#include <fmt/format.h>

#include <utility>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::runtime {
namespace {

sharding::Box whole(const Dims& dims) { return {.start = Dims(dims.size(), 0), .size = dims}; }

}  // namespace

SpecPtr ArraySpec::single(DType dtype, Dims dims, int device_id) {
  return replicated(dtype, std::move(dims), {device_id});
}

SpecPtr ArraySpec::replicated(DType dtype, Dims dims, const std::vector<int>& device_ids) {
  if (device_ids.empty()) {
    fail({.id = "runtime.no_devices",
          .where = "array " + shape_text(dtype, dims),
          .expected = "at least one device",
          .got = "none"});
  }
  element_count(dims);  // refuses negative and overflowing dims
  auto spec = std::make_shared<ArraySpec>();
  spec->dtype = dtype;
  for (int id : device_ids) spec->shards.push_back({.device_id = id, .box = whole(dims)});
  spec->dims = std::move(dims);
  return spec;
}

SpecPtr ArraySpec::sharded(const sharding::ParamType& type, const sharding::Mesh& mesh,
                           const std::string& path) {
  auto spec = std::make_shared<ArraySpec>();
  spec->dtype = type.dtype;
  spec->dims = type.sizes();
  for (int64_t p = 0; p < mesh.size(); ++p) {
    spec->shards.push_back(
        {.device_id = static_cast<int>(mesh.device_ids()[static_cast<size_t>(p)]),
         .box = sharding::shard_box(type, mesh, p, path)});
  }
  return spec;
}

size_t ArraySpec::bytes() const {
  return static_cast<size_t>(element_count(dims)) * size_of(dtype);
}

size_t ArraySpec::bytes_on_devices() const {
  size_t sum = 0;
  for (const Shard& shard : shards) {
    sum += static_cast<size_t>(shard.box.elements()) * size_of(dtype);
  }
  return sum;
}

std::string ArraySpec::text() const {
  std::string out = shape_text(dtype, dims);
  if (shards.size() == 1) return out + fmt::format(" on device {}", shards[0].device_id);
  std::vector<int64_t> ids;
  for (const Shard& shard : shards) ids.push_back(shard.device_id);
  out += " on devices " + list_text(ids);
  if (!shards.empty()) out += fmt::format(", shards of {}", fmt::join(shards[0].box.size, "x"));
  return out;
}

}  // namespace strata::runtime
