// The forms in which others state how an array is split, read into the one record that we keep:
// the dims of a ParamType (dim.h). There is no separate spec beside the shape.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/sharding/dim.h"
#include "strata/sharding/mesh.h"

namespace strata::sharding {

// What a spec says of each dim, dim 0 first; dims after the last are on every device. A name is a
// mesh axis or, alone in its dim, a logical name.
struct PartitionSpec {
  std::vector<std::vector<std::string>> dims = {};

  friend bool operator==(const PartitionSpec&, const PartitionSpec&) = default;
};

// Reads one text of any of these forms:
//   PartitionSpec('fsdp', None)   P(("fsdp", "tensor"), None)   as JAX prints it
//   ('fsdp', None)   ['fsdp', ['tensor']]   ["fsdp", null]      a tuple, a list, JSON
//   fsdp+tensor, None                                           names only, '+' joins axes
//   #sdy.sharding<@mesh, [{"fsdp", "tensor"}, {}]>   [{"fsdp"}, {?}]   Shardy; open dims are closed
// None and empty lists are whole; "" and "()" are a spec of no dims. Throws invalid_argument
// (sharding.spec) showing the text and the place where it breaks off; unimplemented
// (sharding.spec_form) for Shardy's sub-axes, priorities and axes beside the dims.
PartitionSpec parse_partition_spec(std::string_view text);
// The same from parsed JSON: a list whose entries are null, a name or a list of names. `where`
// names the source in errors.
PartitionSpec partition_spec_from_json(const Json& json, const std::string& where);
// "P('fsdp', ('tensor', 'data'), None)", which parse_partition_spec reads back.
std::string text_of(const PartitionSpec& spec);

// The spec of a type's dims.
PartitionSpec spec_of(const ParamType& type);

// `type` with the spec's axes in its dims. Stack dims (role layer or inner_layer) are not counted:
// a spec is that of one layer, and a stack's own dim keeps what it has. Axes of `mesh` go to the
// dim's axes; a lone name that is no axis becomes the dim's logical name, for a resolver to look
// up. Throws invalid_argument naming `path`: sharding.spec_rank (more entries than dims),
// sharding.spec_names (several names that are not all axes); and as check_layout.
ParamType with_spec(const ParamType& type, const PartitionSpec& spec, const Mesh& mesh,
                    const std::string& path);

// A spec for the parameters whose name matches `glob` (strata::glob_matches).
struct SpecRule {
  std::string glob;
  PartitionSpec spec;
};

// "*.q_proj.weight = P('tensor', 'fsdp')": a glob, '=', a spec in any form. Throws as
// parse_partition_spec.
SpecRule parse_spec_rule(std::string_view text);

}  // namespace strata::sharding
