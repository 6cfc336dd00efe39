#include "strata/cli/device.h"

#include <CLI/CLI.hpp>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/pjrt/client.h"
#include "strata/pjrt/plugin.h"

namespace strata::cli {

void declare_device(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--plugin", flags.plugin,
                 "PJRT plug-in: cpu, cuda, rocm, tpu, or the path of a shared library")
      ->capture_default_str();
  app.add_option("--devices", flags.devices, "Devices to open (default: those of the mesh)")
      ->check(CLI::Range(1, 4096));
}

std::shared_ptr<runtime::Compiler> open_compiler(const DeviceFlags& flags, int64_t needed) {
  require(flags.devices == 0 || flags.devices >= needed,
          {.id = "cli.devices",
           .where = "--devices",
           .expected = "at least " + std::to_string(needed) + ", for the devices of the mesh",
           .got = std::to_string(flags.devices),
           .cure = "Leave --devices out"});
  int devices = flags.devices > 0 ? flags.devices : static_cast<int>(needed);
  auto client = pjrt::Client::create(pjrt::Plugin::load(flags.plugin), {.device_count = devices});
  for (const std::string& option : client->declined()) log_warning(option);
  return std::make_shared<runtime::Compiler>(client);
}

}  // namespace strata::cli
