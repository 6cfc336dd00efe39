#include "strata/testing/executor.h"

#include "strata/pjrt/plugin.h"
#include "strata/transform/lower.h"

namespace strata::testing {
namespace {

std::string path_of(CpuPlugin plugin) {
  return std::string(STRATA_DEPS_DIR) + (plugin == CpuPlugin::newer
                                             ? "/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"
                                             : "/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
}

}  // namespace

std::string_view name_of(CpuPlugin plugin) {
  return plugin == CpuPlugin::newer ? "newer" : "older";
}

std::unique_ptr<ir::Function> trace(const std::vector<ir::Type>& parameters, const Build& build,
                                    std::string module_header) {
  auto f = std::make_unique<ir::Function>();
  f->module_header = std::move(module_header);
  ir::Values inputs;
  for (const ir::Type& t : parameters) inputs.push_back(f->parameter(t));
  f->set_results(build(*f, inputs));
  return f;
}

std::string program_text(const ir::Function& function) { return transform::program_text(function); }

std::vector<ir::Type> types_of(std::span<const HostTensor> tensors) {
  std::vector<ir::Type> types;
  for (const HostTensor& t : tensors) types.push_back({t.dtype(), t.dims()});
  return types;
}

Executor::Executor(CpuPlugin plugin, int devices)
    : plugin_(plugin),
      client_(
          pjrt::Client::create(pjrt::Plugin::load(path_of(plugin)), {.device_count = devices})) {}

pjrt::Executable Executor::compile(const ir::Function& function) const {
  return pjrt::Executable::compile(client_, program_text(function));
}

std::vector<HostTensor> Executor::run(const pjrt::Executable& program,
                                      std::span<const HostTensor> inputs) const {
  const pjrt::Device& device = client_->devices()[0];
  std::vector<pjrt::Buffer> buffers;
  std::vector<const pjrt::Buffer*> arguments;
  for (const HostTensor& t : inputs) {
    std::span<const std::byte> bytes(t.bytes(), t.byte_size());
    buffers.push_back(pjrt::Buffer::from_host(client_, device, t.dtype(), t.dims(), bytes).buffer);
  }
  for (const pjrt::Buffer& b : buffers) arguments.push_back(&b);
  pjrt::Execution execution = program.execute(arguments);
  std::vector<HostTensor> results;
  for (const pjrt::Buffer& b : execution.outputs) {
    HostTensor t(b.dtype(), b.dims());
    b.to_host({t.bytes(), t.byte_size()}).wait();
    results.push_back(std::move(t));
  }
  return results;
}

std::vector<HostTensor> Executor::run(const ir::Function& function,
                                      std::span<const HostTensor> inputs) const {
  return run(compile(function), inputs);
}

}  // namespace strata::testing
