// Dim and ParamType: one record per dimension of a parameter. A parameter's declared type is its
// dtype and its dims; there is no separate partition spec, so the two cannot disagree in rank.
//
// Stacking (insert_layer_dim) and unstacking (erase_layer_dim) are the only operations that insert
// or erase a layer dim. The layer axis is read from the role, never configured a second time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/host_tensor.h"

namespace strata::sharding {

// What a dim counts. `layer` is the stack axis of a scan, `inner_layer` that of a nested scan.
enum class Role : uint8_t { none, layer, inner_layer };

// "none", "layer", "inner_layer".
std::string_view name_of(Role role);
// Inverse of name_of. Throws invalid_argument listing the known names.
Role parse_role(std::string_view name);

struct Dim {
  int64_t size = 0;
  Role role = Role::none;
  // Logical name ("embed", "mlp", "layers"); empty = unnamed, which is never sharded by a rule.
  std::string name = {};
  // Mesh axes that shard this dim, major first; empty = replicated.
  std::vector<std::string> axes = {};

  friend bool operator==(const Dim&, const Dim&) = default;
};

// The declared type of a parameter or buffer.
struct ParamType {
  DType dtype = DType::f32;
  std::vector<Dim> dims = {};

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  Dims sizes() const;
  // Elements and bytes of the whole (unsharded) array. Throw out_of_range on overflow.
  int64_t elements() const;
  int64_t bytes() const;
  // Position of the dim with this role; empty when there is none.
  std::optional<int64_t> position_of(Role role) const;

  friend bool operator==(const ParamType&, const ParamType&) = default;
};

// Unnamed, replicated dims of these sizes.
ParamType plain_type(DType dtype, const Dims& sizes);

// "f32[layers:24@pipe, embed:576, 1536@fsdp+tensor]"; a role other than none follows its name.
std::string text_of(const ParamType& type);

// Where the layer dim goes in a parameter of rank `rank`: negative counts from the end of the
// *stacked* rank (-1 = last), larger than the rank is clamped to the rank (axis 1 of a scalar is
// 0). Throws out_of_range naming `path` when a negative axis reaches before the first dim.
int64_t normalised_stack_axis(int64_t axis, int64_t rank, const std::string& path);

// The type of `layer.size` copies of `type` stacked at `axis` (normalised as above). `layer.role`
// must be layer or inner_layer and not occur in `type` already. Throws invalid_argument naming
// `path`; `type` is not changed.
ParamType insert_layer_dim(const ParamType& type, int64_t axis, const Dim& layer,
                           const std::string& path);

// The exact inverse: removes the dim with `role`. Throws invalid_argument naming `path` when
// `role` is none or no dim has it.
ParamType erase_layer_dim(const ParamType& type, Role role, const std::string& path);

}  // namespace strata::sharding
