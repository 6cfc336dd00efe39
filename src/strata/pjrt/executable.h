// Compiled programs: compiling, keeping, inspecting and running them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/pjrt/buffer.h"
#include "strata/pjrt/client.h"
#include "strata/pjrt/event.h"
#include "strata/pjrt/optimized_program.h"
#include "strata/pjrt/transfer.h"

struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace strata::pjrt {

struct CompileOptions {
  int num_replicas = 1;
  int num_partitions = 1;
  // Ids of the devices to run on, [replica][partition]; empty = the client's first ones.
  std::vector<int> device_ids = {};
  bool use_shardy = true;
  // XLA's debug options by name ("xla_cpu_enable_fast_math" = "false").
  std::map<std::string, std::string> xla_options = {};

  // CompileOptionsProto; equal options give equal bytes. Throws invalid_argument
  // "pjrt.device_assignment" when device_ids are neither none nor replicas × partitions distinct
  // ids.
  std::string serialize() const;
};

// The plug-in's own account of a program's memory on one device, in bytes. (Its "peak" is left
// out: the CPU plug-ins count only arguments there.)
struct MemoryStats {
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliases = 0;  // part of the outputs that lies in donated arguments
  int64_t temporaries = 0;
  int64_t generated_code = 0;
};

// Results of one execution. Both lists are device-major: output o of device d is
// outputs[d * num_outputs + o].
struct Execution {
  std::vector<Buffer> outputs;
  std::vector<Event> done;  // one a device; fails when the execution did
};

// Storage that one thread reuses from call to call, so that a steady loop allocates nothing for
// its arguments.
class ExecuteScratch {
 private:
  friend class Executable;
  std::vector<PJRT_Buffer*> inputs_;
  std::vector<PJRT_Buffer*> outputs_;
  std::vector<PJRT_Buffer* const*> input_lists_;
  std::vector<PJRT_Buffer**> output_lists_;
  std::vector<PJRT_Event*> events_;
};

// A program loaded on its devices. Move-only; const calls are thread-safe.
class Executable {
 public:
  // Compiles StableHLO text. Errors of the compiler come as "pjrt.call" and quote the text's
  // loc("…").
  static Executable compile(const std::shared_ptr<const Client>& client, std::string_view text,
                            const CompileOptions& options = {});
  // Loads what `serialize` wrote in the same plug-in on the same kind of machine. The bytes must be
  // exactly those: plug-ins accept or abort on damaged ones, so callers check a digest first.
  static Executable deserialize(const std::shared_ptr<const Client>& client,
                                std::string_view bytes);
  Executable(Executable&& other) noexcept;
  Executable& operator=(Executable&& other) noexcept;
  ~Executable();

  std::string serialize() const;

  const std::shared_ptr<const Client>& client() const { return client_; }
  // Devices it runs on, in the order of its argument lists.
  const std::vector<int>& device_ids() const { return device_ids_; }
  size_t num_outputs() const { return num_outputs_; }
  // Per-device types of the results.
  std::vector<ShapeSpec> outputs() const;
  std::string name() const;

  Declinable<MemoryStats> memory_stats() const;
  // Numbers such as "flops" by name; the newer CPU plug-in declines.
  Declinable<std::map<std::string, double>> cost_analysis() const;
  OptimizedProgram optimized_program() const;

  // Starts one execution. `arguments` are device-major, all of them buffers of this client.
  // Arguments that the program marks as donated are consumed (their buffers become deleted) unless
  // their index is in `keep`. Returns at once; failures while running appear in `done` and in the
  // outputs' ready events. Throws "pjrt.argument_count" (not a multiple of the devices),
  // "pjrt.buffer_empty", "pjrt.foreign_buffer", or "pjrt.call" (among others for a buffer that was
  // donated before, or twice in this call).
  Execution execute(std::span<const Buffer* const> arguments, ExecuteScratch& scratch,
                    std::span<const int64_t> keep = {}) const;
  Execution execute(std::span<const Buffer* const> arguments) const;

 private:
  Executable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* loaded);
  void read_properties();
  void fill_inputs(std::span<const Buffer* const> arguments, ExecuteScratch& scratch) const;

  std::shared_ptr<const Client> client_;
  PJRT_LoadedExecutable* loaded_ = nullptr;
  PJRT_Executable* executable_ = nullptr;
  size_t num_outputs_ = 0;
  std::vector<int> device_ids_;
};

}  // namespace strata::pjrt
