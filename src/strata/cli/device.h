// What commands that compute share: the options that choose a device, and its compiler.
#pragma once

#include <memory>
#include <string>

#include "strata/runtime/compile.h"

namespace CLI {
class App;
}

namespace strata::cli {

struct DeviceFlags {
  std::string plugin = "cpu";  // cpu, cuda, rocm, tpu, or a path
  int devices = 0;             // 0 = as many as are needed
};

// Declares --plugin and --devices. `flags` must outlive `app`.
void declare_device(CLI::App& app, DeviceFlags& flags);

// Loads the plug-in, opens its devices (`needed`, or more where the flags say so) and gives their
// compiler, with the disk cache at runtime::default_cache_dir(). Options that the plug-in does not
// take are told on stderr. Throws as pjrt::Plugin::load and pjrt::Client::create; invalid_argument
// (cli.devices) when the flags ask for fewer than are needed.
std::shared_ptr<runtime::Compiler> open_compiler(const DeviceFlags& flags, int64_t needed = 1);

}  // namespace strata::cli
