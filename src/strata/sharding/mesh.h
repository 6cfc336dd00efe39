// Mesh: devices arranged along named axes. Pure data; the runtime maps positions to devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::sharding {

struct MeshAxis {
  std::string name;
  int64_t size = 1;

  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// Immutable. Positions 0 … size()-1 run row-major over the axes: the last axis changes fastest.
class Mesh {
 public:
  // No axes, one device (id 0).
  Mesh() : device_ids_{0} {}
  // `device_ids[p]` is the device at position p; empty means 0, 1, 2, … Throws invalid_argument on
  // an empty, odd or doubled name, a size below 1, a size product above 2^31, a wrong number of
  // ids, or a doubled or negative id.
  explicit Mesh(std::vector<MeshAxis> axes, std::vector<int64_t> device_ids = {});
  // "layers=2,fsdp=2,tensor=2"; blanks around names and sizes are allowed; "" is one device.
  // Throws invalid_argument naming the part that is wrong.
  static Mesh parse(std::string_view text);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  const std::vector<int64_t>& device_ids() const { return device_ids_; }
  // Number of devices.
  int64_t size() const { return static_cast<int64_t>(device_ids_.size()); }
  bool has(std::string_view axis) const;
  // Throws not_found with the nearest known axis; `where` names who asks.
  int64_t axis_size(std::string_view axis, const std::string& where = "mesh") const;
  // Product of the sizes of several axes; 1 for none. Throws as axis_size.
  int64_t axes_size(const std::vector<std::string>& axes, const std::string& where = "mesh") const;
  // Index along every axis, in axis order. Throws out_of_range.
  std::vector<int64_t> coordinates(int64_t position) const;
  // Inverse of parse ("layers=2,fsdp=2"); device ids are not part of it.
  std::string text() const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
  std::vector<int64_t> device_ids_;
};

}  // namespace strata::sharding
