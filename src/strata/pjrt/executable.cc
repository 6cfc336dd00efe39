#include "strata/pjrt/executable.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "strata/base/error.h"
#include "strata/pjrt/c_api.h"
#include "strata/pjrt/wire.h"

namespace strata::pjrt {
namespace {

// DeviceAssignmentProto: 1 replica_count, 2 computation_count, 3 repeated { 1 replica_device_ids }.
WireWriter device_assignment(const CompileOptions& options) {
  size_t wanted =
      static_cast<size_t>(options.num_replicas) * static_cast<size_t>(options.num_partitions);
  std::set<int> distinct(options.device_ids.begin(), options.device_ids.end());
  if (options.device_ids.size() != wanted || distinct.size() != wanted) {
    fail({.id = "pjrt.device_assignment",
          .where = "compile options",
          .expected = fmt::format("{} distinct device ids ({} replicas x {} partitions)", wanted,
                                  options.num_replicas, options.num_partitions),
          .got = fmt::format("[{}]", fmt::join(options.device_ids, ", "))});
  }
  WireWriter assignment;
  assignment.number(1, options.num_replicas);
  assignment.number(2, options.num_partitions);
  for (int p = 0; p < options.num_partitions; ++p) {
    std::vector<int64_t> ids;
    for (int r = 0; r < options.num_replicas; ++r) {
      ids.push_back(options.device_ids[static_cast<size_t>(r * options.num_partitions + p)]);
    }
    WireWriter computation;
    computation.packed(1, ids);
    assignment.message(3, computation);
  }
  return assignment;
}

// ExecutableBuildOptionsProto.
WireWriter build_options(const CompileOptions& options) {
  WireWriter build;
  build.number(1, -1);  // device_ordinal
  build.number(4, options.num_replicas);
  build.number(5, options.num_partitions);
  build.number(6, options.num_partitions > 1 ? 1 : 0);  // use_spmd_partitioning
  if (!options.device_ids.empty()) build.message(9, device_assignment(options));
  build.number(19, options.use_shardy ? 1 : 0);
  return build;
}

}  // namespace

std::string CompileOptions::serialize() const {
  if (num_replicas < 1 || num_partitions < 1 || num_replicas > 65536 || num_partitions > 65536) {
    fail({.id = "pjrt.device_assignment",
          .where = "compile options",
          .expected = "1 to 65536 replicas and partitions",
          .got = fmt::format("{} and {}", num_replicas, num_partitions)});
  }
  // CompileOptionsProto: 3 executable_build_options, 7 map env_option_overrides { string_field }.
  WireWriter out;
  out.message(3, build_options(*this));
  for (const auto& option : xla_options) {
    WireWriter value, entry;
    value.bytes(1, option.second);
    entry.bytes(1, option.first);
    entry.message(2, value);
    out.message(7, entry);
  }
  return out.text();
}

Executable Executable::compile(const std::shared_ptr<const Client>& client, std::string_view text,
                               const CompileOptions& options) {
  constexpr std::string_view kFormat = "mlir";
  std::string code(text);
  std::string option_bytes = options.serialize();
  auto program = zeroed<PJRT_Program>();
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  auto args = zeroed<PJRT_Client_Compile_Args>();
  args.client = client->handle();
  args.program = &program;
  args.compile_options = option_bytes.data();
  args.compile_options_size = option_bytes.size();
  call(*client->plugin(), &PJRT_Api::PJRT_Client_Compile, args);
  Executable executable(client, args.executable);
  executable.read_properties();
  return executable;
}

Executable Executable::deserialize(const std::shared_ptr<const Client>& client,
                                   std::string_view bytes) {
  auto args = zeroed<PJRT_Executable_DeserializeAndLoad_Args>();
  args.client = client->handle();
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  call(*client->plugin(), &PJRT_Api::PJRT_Executable_DeserializeAndLoad, args);
  Executable executable(client, args.loaded_executable);
  executable.read_properties();
  return executable;
}

Executable::Executable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* loaded)
    : client_(std::move(client)), loaded_(loaded) {}

Executable::Executable(Executable&& other) noexcept
    : client_(std::move(other.client_)),
      loaded_(std::exchange(other.loaded_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)),
      num_outputs_(other.num_outputs_),
      device_ids_(std::move(other.device_ids_)) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  Executable taken(std::move(other));  // so that what was held here goes at once
  std::swap(client_, taken.client_);
  std::swap(loaded_, taken.loaded_);
  std::swap(executable_, taken.executable_);
  std::swap(num_outputs_, taken.num_outputs_);
  std::swap(device_ids_, taken.device_ids_);
  return *this;
}

Executable::~Executable() {
  if (executable_ != nullptr) {
    auto args = zeroed<PJRT_Executable_Destroy_Args>();
    args.executable = executable_;
    call_quietly(*client_->plugin(), &PJRT_Api::PJRT_Executable_Destroy, args);
  }
  if (loaded_ != nullptr) {
    auto args = zeroed<PJRT_LoadedExecutable_Destroy_Args>();
    args.executable = loaded_;
    call_quietly(*client_->plugin(), &PJRT_Api::PJRT_LoadedExecutable_Destroy, args);
  }
}

void Executable::read_properties() {
  const Plugin& plugin = *client_->plugin();
  auto inner = zeroed<PJRT_LoadedExecutable_GetExecutable_Args>();
  inner.loaded_executable = loaded_;
  call(plugin, &PJRT_Api::PJRT_LoadedExecutable_GetExecutable, inner);
  executable_ = inner.executable;
  auto outputs = zeroed<PJRT_Executable_NumOutputs_Args>();
  outputs.executable = executable_;
  call(plugin, &PJRT_Api::PJRT_Executable_NumOutputs, outputs);
  num_outputs_ = outputs.num_outputs;
  auto list = zeroed<PJRT_LoadedExecutable_AddressableDevices_Args>();
  list.executable = loaded_;
  call(plugin, &PJRT_Api::PJRT_LoadedExecutable_AddressableDevices, list);
  for (size_t i = 0; i < list.num_addressable_devices; ++i) {
    for (const Device& device : client_->devices()) {
      if (device.handle == list.addressable_devices[i]) device_ids_.push_back(device.id);
    }
  }
}

std::string Executable::serialize() const {
  auto args = zeroed<PJRT_Executable_Serialize_Args>();
  args.executable = executable_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Executable_Serialize, args);
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

std::vector<ShapeSpec> Executable::outputs() const {
  auto types = zeroed<PJRT_Executable_OutputElementTypes_Args>();
  types.executable = executable_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Executable_OutputElementTypes, types);
  auto dims = zeroed<PJRT_Executable_OutputDimensions_Args>();
  dims.executable = executable_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Executable_OutputDimensions, dims);
  std::vector<ShapeSpec> specs;
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < types.num_output_types; ++i) {
    specs.push_back(
        {to_dtype(number_of(types.output_types[i])), Dims(next, next + dims.dim_sizes[i])});
    next += dims.dim_sizes[i];
  }
  return specs;
}

std::string Executable::name() const {
  auto args = zeroed<PJRT_Executable_Name_Args>();
  args.executable = executable_;
  call(*client_->plugin(), &PJRT_Api::PJRT_Executable_Name, args);
  return std::string(args.executable_name, args.executable_name_size);
}

Declinable<MemoryStats> Executable::memory_stats() const {
  auto args = zeroed<PJRT_Executable_GetCompiledMemoryStats_Args>();
  args.executable = executable_;
  try {
    call(*client_->plugin(), &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, args);
  } catch (const Error& e) {
    if (e.code() != Code::unimplemented) throw;
    return {.value = {}, .declined = "declined: " + e.message()};
  }
  return {.value = MemoryStats{.arguments = args.argument_size_in_bytes,
                               .outputs = args.output_size_in_bytes,
                               .aliases = args.alias_size_in_bytes,
                               .temporaries = args.temp_size_in_bytes,
                               .generated_code = args.generated_code_size_in_bytes},
          .declined = {}};
}

Declinable<std::map<std::string, double>> Executable::cost_analysis() const {
  auto args = zeroed<PJRT_Executable_GetCostAnalysis_Args>();
  args.executable = executable_;
  try {
    call(*client_->plugin(), &PJRT_Api::PJRT_Executable_GetCostAnalysis, args);
  } catch (const Error& e) {
    if (e.code() != Code::unimplemented) throw;
    return {.value = {}, .declined = "declined: " + e.message()};
  }
  std::map<std::string, double> values;
  for (size_t i = 0; i < args.num_properties; ++i) {
    const PJRT_NamedValue& p = args.properties[i];
    std::string name(p.name, p.name_size);
    int type = number_of(p.type);
    if (type == PJRT_NamedValue_kFloat) values[name] = p.float_value;
    if (type == PJRT_NamedValue_kInt64) values[name] = static_cast<double>(p.int64_value);
  }
  return {.value = std::move(values), .declined = {}};
}

OptimizedProgram Executable::optimized_program() const {
  auto program = zeroed<PJRT_Program>();
  auto args = zeroed<PJRT_Executable_OptimizedProgram_Args>();
  args.executable = executable_;
  args.program = &program;
  // The first call tells the size, the second fills.
  call(*client_->plugin(), &PJRT_Api::PJRT_Executable_OptimizedProgram, args);
  std::string format(program.format, program.format_size);
  if (format != "hlo_with_config") {
    unimplemented({.id = "pjrt.program_format",
                   .where = "optimised program of plug-in " + client_->plugin()->name(),
                   .expected = "the format hlo_with_config",
                   .got = format});
  }
  std::string bytes(program.code_size, '\0');
  program.code = bytes.data();
  call(*client_->plugin(), &PJRT_Api::PJRT_Executable_OptimizedProgram, args);
  return OptimizedProgram::parse(bytes);
}

void Executable::fill_inputs(std::span<const Buffer* const> arguments,
                             ExecuteScratch& scratch) const {
  size_t devices = device_ids_.size();
  if (devices == 0 || arguments.size() % devices != 0) {
    fail({.id = "pjrt.argument_count",
          .where = "execution of " + name(),
          .expected = fmt::format("one list of arguments for each of {} devices", devices),
          .got = fmt::format("{} arguments in all", arguments.size())});
  }
  scratch.inputs_.clear();
  for (size_t i = 0; i < arguments.size(); ++i) {
    PJRT_Buffer* handle = arguments[i] == nullptr ? nullptr : arguments[i]->handle();
    if (handle == nullptr) {
      fail({.id = "pjrt.buffer_empty",
            .where = fmt::format("execution of {}, argument {}", name(),
                                 i % (arguments.size() / devices)),
            .expected = "a buffer that owns device memory",
            .got = "an empty one (moved from, or never filled)",
            .code = Code::failed_precondition});
    }
    if (arguments[i]->client() != client_) {
      fail({.id = "pjrt.foreign_buffer",
            .where = fmt::format("execution of {}, argument {}", name(),
                                 i % (arguments.size() / devices)),
            .expected = "a buffer of the client that compiled the program",
            .got = "one of another client (" + arguments[i]->client()->plugin()->name() + ")"});
    }
    scratch.inputs_.push_back(handle);
  }
}

Execution Executable::execute(std::span<const Buffer* const> arguments, ExecuteScratch& scratch,
                              std::span<const int64_t> keep) const {
  fill_inputs(arguments, scratch);
  size_t devices = device_ids_.size();
  size_t count = arguments.size() / devices;
  scratch.outputs_.assign(devices * num_outputs_, nullptr);
  scratch.events_.assign(devices, nullptr);
  scratch.input_lists_.resize(devices);
  scratch.output_lists_.resize(devices);
  for (size_t d = 0; d < devices; ++d) {
    scratch.input_lists_[d] = scratch.inputs_.data() + d * count;
    scratch.output_lists_[d] = scratch.outputs_.data() + d * num_outputs_;
  }
  auto options = zeroed<PJRT_ExecuteOptions>();
  options.non_donatable_input_indices = keep.data();
  options.num_non_donatable_input_indices = keep.size();
  auto args = zeroed<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = loaded_;
  args.options = &options;
  args.argument_lists = scratch.input_lists_.data();
  args.num_devices = devices;
  args.num_args = count;
  args.output_lists = scratch.output_lists_.data();
  args.device_complete_events = scratch.events_.data();
  call(*client_->plugin(), &PJRT_Api::PJRT_LoadedExecutable_Execute, args);
  Execution execution;
  execution.outputs.reserve(scratch.outputs_.size());
  for (PJRT_Buffer* output : scratch.outputs_) execution.outputs.emplace_back(client_, output);
  execution.done.reserve(devices);
  for (PJRT_Event* event : scratch.events_) execution.done.emplace_back(client_->plugin(), event);
  return execution;
}

Execution Executable::execute(std::span<const Buffer* const> arguments) const {
  ExecuteScratch scratch;
  return execute(arguments, scratch);
}

}  // namespace strata::pjrt
