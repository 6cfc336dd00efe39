// Which part of an array each device of a mesh holds. Arithmetic only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/base/host_tensor.h"
#include "strata/sharding/dim.h"
#include "strata/sharding/mesh.h"

namespace strata::sharding {

// A rectangular part of an array: elements start[i] … start[i]+size[i]-1 of every dim i.
struct Box {
  Dims start;
  Dims size;

  int64_t elements() const { return element_count(size); }
  friend bool operator==(const Box&, const Box&) = default;
};

// The common part; empty when there is none (touching boxes and boxes without elements have none).
// Throws invalid_argument when the ranks differ.
std::optional<Box> intersect(const Box& a, const Box& b);

// "[2:4, 0:8]".
std::string text_of(const Box& box);

// Throws, naming `path`, dim, size and axis, unless every mesh axis in `type` exists in `mesh`
// (not_found), shards at most one dim, and divides its dim (invalid_argument).
void check_layout(const ParamType& type, const Mesh& mesh, const std::string& path);

// Sizes of the part on one device. Throws as check_layout.
Dims shard_sizes(const ParamType& type, const Mesh& mesh, const std::string& path);

// The part on the device at `position`. The axes of a dim are taken major first: with axes {a, b}
// the device at (ia, ib) holds part ia * size(b) + ib. Throws as check_layout; out_of_range.
Box shard_box(const ParamType& type, const Mesh& mesh, int64_t position, const std::string& path);

// How many devices hold the same part: the mesh's size over the product of the axes used.
int64_t replica_count(const ParamType& type, const Mesh& mesh, const std::string& path);

// Bytes on one device.
int64_t shard_bytes(const ParamType& type, const Mesh& mesh, const std::string& path);

}  // namespace strata::sharding
