#include "strata/sharding/box.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "strata/base/error.h"

namespace strata::sharding {
namespace {

std::string dim_place(const std::string& path, const ParamType& type, size_t i) {
  return fmt::format("{}, dim {} of {}", path, i, text_of(type));
}

int64_t axis_position(const Mesh& mesh, const std::string& axis) {
  for (size_t i = 0; i < mesh.axes().size(); ++i) {
    if (mesh.axes()[i].name == axis) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace

std::optional<Box> intersect(const Box& a, const Box& b) {
  require(a.start.size() == b.start.size(),
          {.id = "sharding.box_rank",
           .where = "intersection of boxes",
           .expected = "equal ranks",
           .got = fmt::format("{} and {}", text_of(a), text_of(b))});
  Box common;
  for (size_t i = 0; i < a.start.size(); ++i) {
    int64_t start = std::max(a.start[i], b.start[i]);
    int64_t end = std::min(a.start[i] + a.size[i], b.start[i] + b.size[i]);
    if (end <= start) return std::nullopt;
    common.start.push_back(start);
    common.size.push_back(end - start);
  }
  return common;
}

std::string text_of(const Box& box) {
  std::string text = "[";
  for (size_t i = 0; i < box.start.size(); ++i) {
    text += fmt::format("{}{}:{}", i > 0 ? ", " : "", box.start[i], box.start[i] + box.size[i]);
  }
  return text + "]";
}

void check_layout(const ParamType& type, const Mesh& mesh, const std::string& path) {
  std::set<std::string_view> used;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const Dim& dim = type.dims[i];
    for (const std::string& axis : dim.axes) {
      if (!used.insert(axis).second) {
        fail({.id = "sharding.axis_on_two_dims",
              .where = dim_place(path, type, i),
              .expected = "each mesh axis on at most one dim",
              .got = "'" + axis + "' a second time"});
      }
    }
    int64_t parts = mesh.axes_size(dim.axes, dim_place(path, type, i));
    if (dim.size % parts != 0) {
      fail({.id = "sharding.not_divisible",
            .where = dim_place(path, type, i),
            .expected =
                fmt::format("a size divisible by {} ({})", parts, fmt::join(dim.axes, " x ")),
            .got = std::to_string(dim.size)});
    }
  }
}

Dims shard_sizes(const ParamType& type, const Mesh& mesh, const std::string& path) {
  check_layout(type, mesh, path);
  Dims sizes;
  for (const Dim& dim : type.dims) sizes.push_back(dim.size / mesh.axes_size(dim.axes, path));
  return sizes;
}

Box shard_box(const ParamType& type, const Mesh& mesh, int64_t position, const std::string& path) {
  Box box;
  box.size = shard_sizes(type, mesh, path);
  std::vector<int64_t> coordinates = mesh.coordinates(position);
  for (size_t i = 0; i < type.dims.size(); ++i) {
    int64_t part = 0;
    for (const std::string& axis : type.dims[i].axes) {
      auto at = static_cast<size_t>(axis_position(mesh, axis));
      part = part * mesh.axes()[at].size + coordinates[at];
    }
    box.start.push_back(part * box.size[i]);
  }
  return box;
}

int64_t replica_count(const ParamType& type, const Mesh& mesh, const std::string& path) {
  check_layout(type, mesh, path);
  int64_t parts = 1;
  for (const Dim& dim : type.dims) parts *= mesh.axes_size(dim.axes, path);
  return mesh.size() / parts;
}

int64_t shard_bytes(const ParamType& type, const Mesh& mesh, const std::string& path) {
  return plain_type(type.dtype, shard_sizes(type, mesh, path)).bytes();
}

}  // namespace strata::sharding
