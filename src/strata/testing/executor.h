// Runs traced functions on the CPU plug-ins of the dependency folder.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/pjrt/client.h"
#include "strata/pjrt/executable.h"

namespace strata::testing {

// The two wheels that pjrt.md measures; every test that is quick runs on both.
enum class CpuPlugin { newer, older };
std::string_view name_of(CpuPlugin plugin);

// Builds results from parameters; called while tracing.
using Build = std::function<ir::Values(ir::Function&, const ir::Values&)>;

// A function with one parameter per type and the results of `build`.
std::unique_ptr<ir::Function> trace(const std::vector<ir::Type>& parameters, const Build& build,
                                    std::string module_header = {});

// The compiler's input for `function`.
std::string program_text(const ir::Function& function);

// The types of tensors.
std::vector<ir::Type> types_of(std::span<const HostTensor> tensors);

// A client of one plug-in. Const calls are thread-safe.
class Executor {
 public:
  // Throws what loading a plug-in throws.
  explicit Executor(CpuPlugin plugin = CpuPlugin::newer, int devices = 1);

  CpuPlugin plugin() const { return plugin_; }
  const std::shared_ptr<const pjrt::Client>& client() const { return client_; }

  // Lowers, prints and compiles for one device.
  pjrt::Executable compile(const ir::Function& function) const;
  // Runs on device 0 and waits for the results.
  std::vector<HostTensor> run(const pjrt::Executable& program,
                              std::span<const HostTensor> inputs) const;
  std::vector<HostTensor> run(const ir::Function& function,
                              std::span<const HostTensor> inputs) const;

 private:
  CpuPlugin plugin_;
  std::shared_ptr<const pjrt::Client> client_;
};

}  // namespace strata::testing
