#include "strata/sharding/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::sharding {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 31;

bool lawful_name(std::string_view name) {
  auto lawful = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  bool digit_first = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return !name.empty() && !digit_first && std::all_of(name.begin(), name.end(), lawful);
}

int64_t checked_size(const std::vector<MeshAxis>& axes) {
  int64_t total = 1;
  std::set<std::string_view> seen;
  for (const MeshAxis& axis : axes) {
    require(lawful_name(axis.name),
            {.id = "sharding.mesh_name",
             .where = "mesh",
             .expected = "an axis name of letters, digits and '_', no digit first",
             .got = "'" + axis.name + "'"});
    require(seen.insert(axis.name).second, {.id = "sharding.mesh_axis_twice",
                                            .where = "mesh",
                                            .expected = "each axis once",
                                            .got = "'" + axis.name + "' twice"});
    require(axis.size >= 1, {.id = "sharding.mesh_size",
                             .where = "mesh axis '" + axis.name + "'",
                             .expected = "a size of at least 1",
                             .got = std::to_string(axis.size)});
    require(axis.size <= kMaxDevices / total, {.id = "sharding.mesh_too_large",
                                               .where = "mesh axis '" + axis.name + "'",
                                               .expected = "at most 2^31 devices",
                                               .got = "more"});
    total *= axis.size;
  }
  return total;
}

int64_t parse_size(std::string_view text, const std::string& where) {
  int64_t size = 0;
  const char* end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, size);
  require(result.ec == std::errc() && result.ptr == end, {.id = "sharding.mesh_parse",
                                                          .where = where,
                                                          .expected = "a whole number after '='",
                                                          .got = "'" + std::string(text) + "'"});
  return size;
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<int64_t> device_ids)
    : axes_(std::move(axes)), device_ids_(std::move(device_ids)) {
  int64_t total = checked_size(axes_);
  if (device_ids_.empty()) {
    device_ids_.resize(static_cast<size_t>(total));
    std::iota(device_ids_.begin(), device_ids_.end(), int64_t{0});
  }
  require(size() == total, {.id = "sharding.mesh_devices",
                            .where = "mesh " + text(),
                            .expected = fmt::format("{} device ids", total),
                            .got = std::to_string(size())});
  std::set<int64_t> seen(device_ids_.begin(), device_ids_.end());
  require(seen.size() == device_ids_.size() && *seen.begin() >= 0,
          {.id = "sharding.mesh_device_twice",
           .where = "mesh " + text(),
           .expected = "distinct device ids >= 0",
           .got = list_text(device_ids_)});
}

Mesh Mesh::parse(std::string_view text) {
  std::vector<MeshAxis> axes;
  if (trim(text).empty()) return Mesh();
  for (const std::string& part : split(text, ',')) {
    std::string where = "mesh '" + std::string(text) + "'";
    size_t equals = part.find('=');
    require(equals != std::string::npos, {.id = "sharding.mesh_parse",
                                          .where = where,
                                          .expected = "axis=size pairs separated by commas",
                                          .got = "'" + part + "'"});
    std::string_view whole = part;
    axes.push_back({std::string(trim(whole.substr(0, equals))),
                    parse_size(trim(whole.substr(equals + 1)), where)});
  }
  return Mesh(std::move(axes));
}

bool Mesh::has(std::string_view axis) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == axis; });
}

int64_t Mesh::axis_size(std::string_view axis, const std::string& where) const {
  std::vector<std::string> known;
  for (const MeshAxis& a : axes_) {
    if (a.name == axis) return a.size;
    known.push_back(a.name);
  }
  std::string near = nearest(axis, known);
  fail({.id = "sharding.unknown_axis",
        .where = where,
        .expected = known.empty() ? "no mesh axis (the mesh has none)"
                                  : "a mesh axis, one of " + join(known, ", "),
        .got = "'" + std::string(axis) + "'",
        .cure = near.empty() ? "" : "Did you mean '" + near + "'?",
        .code = Code::not_found});
}

int64_t Mesh::axes_size(const std::vector<std::string>& axes, const std::string& where) const {
  int64_t product = 1;
  for (const std::string& axis : axes) product *= axis_size(axis, where);
  return product;
}

std::vector<int64_t> Mesh::coordinates(int64_t position) const {
  require(position >= 0 && position < size(),
          {.id = "sharding.mesh_position",
           .where = "mesh " + text(),
           .expected = fmt::format("a position below {}", size()),
           .got = std::to_string(position),
           .code = Code::out_of_range});
  std::vector<int64_t> coordinates(axes_.size());
  for (size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] = position % axes_[i].size;
    position /= axes_[i].size;
  }
  return coordinates;
}

std::string Mesh::text() const {
  std::string text;
  for (const MeshAxis& axis : axes_) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
  }
  return text;
}

}  // namespace strata::sharding
