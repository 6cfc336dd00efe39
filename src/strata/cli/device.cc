#include "strata/cli/device.h"

#include <CLI/CLI.hpp>

#include "strata/base/log.h"
#include "strata/pjrt/client.h"
#include "strata/pjrt/plugin.h"

namespace strata::cli {

void declare_device(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--plugin", flags.plugin,
                 "PJRT plug-in: cpu, cuda, rocm, tpu, or the path of a shared library")
      ->capture_default_str();
  app.add_option("--devices", flags.devices, "Devices to open")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

std::shared_ptr<runtime::Compiler> open_compiler(const DeviceFlags& flags) {
  auto client =
      pjrt::Client::create(pjrt::Plugin::load(flags.plugin), {.device_count = flags.devices});
  for (const std::string& option : client->declined()) log_warning(option);
  return std::make_shared<runtime::Compiler>(client);
}

}  // namespace strata::cli
