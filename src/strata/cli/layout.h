// What commands that run a model share: how its layers run and how it lies over devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/cli/device.h"
#include "strata/models/causal_lm.h"
#include "strata/nn/structure.h"

namespace CLI {
class App;
}

namespace strata::cli {

struct LayoutFlags {
  std::string scan = "auto";
  int64_t scan_axis = 0;
  bool nested = false;
  std::string remat = "none";
  std::string mesh;
  std::vector<std::string> rules;
  std::vector<std::string> specs;  // of parameters by name
  bool strict = false;
  DeviceFlags device;
};

// Declares --scan, --param-scan-axis, --nested-scan, --remat, --mesh, --shard, --strict, --plugin
// and --devices. `flags` must outlive `app`.
void declare_layout(CLI::App& app, LayoutFlags& flags);

nn::ScanOptions scan_options(const LayoutFlags& flags);
sharding::PlacementOptions placement_options(const LayoutFlags& flags);

// Plans the model's layers and lays them over the mesh; what could not be sharded as wished is told
// on stderr. Throws as nn::Structure and sharding::place.
std::unique_ptr<nn::Structure> make_structure(const models::CausalLm& model,
                                              const LayoutFlags& flags);

// As open_compiler(flags.device), with the devices that the mesh needs. Throws invalid_argument
// (cli.devices) when --devices asks for fewer.
std::shared_ptr<runtime::Compiler> open_compiler(const LayoutFlags& flags,
                                                 const sharding::Mesh& mesh);

}  // namespace strata::cli
