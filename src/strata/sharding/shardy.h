// Meshes and layouts in the words of Shardy, the compiler's partitioner.
#pragma once

#include <string>
#include <vector>

#include "strata/sharding/mesh.h"

namespace strata::sharding {

// `sdy.mesh @mesh = <["fsdp"=2, "tensor"=4]>`: a line at the head of a module. Device ids are not
// part of it: they are the compile options' device assignment.
std::string shardy_mesh(const Mesh& mesh);

// `#sdy.sharding<@mesh, [{"fsdp", "tensor"}, {}]>`: the mesh axes of each dim, major first. A dim
// without axes is replicated and stays so.
std::string shardy_sharding(const std::vector<std::vector<std::string>>& axes);

}  // namespace strata::sharding
