// What an Array is and where its parts lie: shared, immutable data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/base/host_tensor.h"
#include "strata/sharding/box.h"
#include "strata/sharding/dim.h"
#include "strata/sharding/mesh.h"

namespace strata::runtime {

// The part of an array that one device holds.
struct Shard {
  int device_id = 0;
  sharding::Box box;

  friend bool operator==(const Shard&, const Shard&) = default;
};

struct ArraySpec;
using SpecPtr = std::shared_ptr<const ArraySpec>;

// Element type, dims of the whole array, and one shard a device, in the order of the devices of
// the programs that use it. Replicas have equal boxes.
struct ArraySpec {
  DType dtype = DType::f32;
  Dims dims;
  std::vector<Shard> shards;

  // The whole array on one device.
  static SpecPtr single(DType dtype, Dims dims, int device_id = 0);
  // The whole array on each device. Throws invalid_argument "runtime.no_devices" for an empty list.
  static SpecPtr replicated(DType dtype, Dims dims, const std::vector<int>& device_ids);
  // As a parameter's declared type lays it over a mesh; `path` names it in errors. Throws as
  // sharding::shard_box.
  static SpecPtr sharded(const sharding::ParamType& type, const sharding::Mesh& mesh,
                         const std::string& path);

  // Bytes of the whole array, and of the shards of all devices together.
  size_t bytes() const;
  size_t bytes_on_devices() const;
  // "2x3xf32 on device 0", "8x4xf32 on devices [0, 1], shards of 4x4".
  std::string text() const;

  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

}  // namespace strata::runtime
