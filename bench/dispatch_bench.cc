// What Strata adds to a dispatch: a program with many small donated buffers, run in a loop through
// Executor::run and through the bare C API, in interleaved pairs. Prints medians of the wall time
// of a step and of the CPU time of the calling thread, which other work on the machine disturbs
// less.
//
//   dispatch_bench [PLUGIN] [BUFFERS] [PAIRS]      defaults: cpu 650 400
#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/pjrt/c_api.h"
#include "strata/runtime/compile.h"
#include "strata/runtime/executor.h"

namespace strata {
namespace {

using pjrt::call;
using pjrt::zeroed;

// Every buffer plus one, in its own memory.
std::string program_text(int buffers) {
  std::string arguments, types, body, results;
  for (int i = 0; i < buffers; ++i) {
    const char* comma = i == 0 ? "" : ", ";
    arguments +=
        fmt::format("{}%a{}: tensor<16xf32> {{tf.aliasing_output = {} : i32}}", comma, i, i);
    types += fmt::format("{}tensor<16xf32>", comma);
    body += fmt::format("    %r{0} = stablehlo.add %a{0}, %one : tensor<16xf32>\n", i);
    results += fmt::format("{}%r{}", comma, i);
  }
  return fmt::format(
      "module @dispatch {{\n  func.func public @main({}) -> ({}) {{\n"
      "    %one = stablehlo.constant dense<1.0> : tensor<16xf32>\n{}    return {} : {}\n  }}\n}}",
      arguments, types, body, results, types);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Milliseconds on one of the clocks of clock_gettime.
double milliseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Times of both loops on one clock.
struct Times {
  const char* name;
  clockid_t clock;
  std::vector<double> ours = {}, bare = {}, difference = {};

  void add(const double (&pair)[2]) {
    ours.push_back(pair[0]);
    bare.push_back(pair[1]);
    difference.push_back(pair[0] - pair[1]);
  }
  void print() const {
    fmt::print("{}: strata {:.4f} ms, bare PJRT {:.4f} ms, median difference {:.4f} ms\n", name,
               median(ours), median(bare), median(difference));
  }
};

std::vector<runtime::Array> initial_state(const runtime::ClientPtr& client, int buffers) {
  std::vector<runtime::Array> state;
  for (int i = 0; i < buffers; ++i) {
    state.push_back(runtime::Array::put(client, HostTensor(DType::f32, {16})));
  }
  return state;
}

// The loop as a trainer writes it.
class StrataLoop {
 public:
  StrataLoop(std::shared_ptr<const runtime::Program> program, const runtime::ClientPtr& client,
             int buffers)
      : executor_(std::move(program)), state_(initial_state(client, buffers)) {}

  void step() {
    arguments_.clear();
    for (runtime::Array& array : state_) arguments_.push_back(runtime::Argument::donate(array));
    state_ = executor_.run(arguments_);
    executor_.wait();
  }
  double first_value() const { return state_[0].get().at(0); }

 private:
  runtime::Executor executor_;
  std::vector<runtime::Array> state_;
  std::vector<runtime::Argument> arguments_;
};

// The same with nothing but the calls that any caller has to make.
class BareLoop {
 public:
  BareLoop(const runtime::ClientPtr& client, const std::string& text, int buffers)
      : client_(client),
        plugin_(*client->plugin()),
        owners_(initial_state(client, buffers)),
        outputs_(static_cast<size_t>(buffers)) {
    std::string options = pjrt::CompileOptions{}.serialize();
    std::string code = text;
    auto program = zeroed<PJRT_Program>();
    program.code = code.data();
    program.code_size = code.size();
    program.format = "mlir";
    program.format_size = 4;
    auto args = zeroed<PJRT_Client_Compile_Args>();
    args.client = client->handle();
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    call(plugin_, &PJRT_Api::PJRT_Client_Compile, args);
    executable_ = args.executable;
    for (const runtime::Array& array : owners_) inputs_.push_back(array.buffer(0).handle());
  }
  BareLoop(const BareLoop&) = delete;
  BareLoop& operator=(const BareLoop&) = delete;
  ~BareLoop() {
    if (!first_) destroy(inputs_);
    auto args = zeroed<PJRT_LoadedExecutable_Destroy_Args>();
    args.executable = executable_;
    pjrt::call_quietly(plugin_, &PJRT_Api::PJRT_LoadedExecutable_Destroy, args);
  }

  void step() {
    PJRT_Buffer* const* inputs = inputs_.data();
    PJRT_Buffer** outputs = outputs_.data();
    PJRT_Event* event = nullptr;
    auto options = zeroed<PJRT_ExecuteOptions>();
    auto args = zeroed<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = executable_;
    args.options = &options;
    args.argument_lists = &inputs;
    args.num_devices = 1;
    args.num_args = inputs_.size();
    args.output_lists = &outputs;
    args.device_complete_events = &event;
    call(plugin_, &PJRT_Api::PJRT_LoadedExecutable_Execute, args);
    // The first inputs belong to owners_.
    if (!first_) destroy(inputs_);
    if (first_) owners_.clear();
    first_ = false;
    std::swap(inputs_, outputs_);
    auto await = zeroed<PJRT_Event_Await_Args>();
    await.event = event;
    call(plugin_, &PJRT_Api::PJRT_Event_Await, await);
    auto end = zeroed<PJRT_Event_Destroy_Args>();
    end.event = event;
    call(plugin_, &PJRT_Api::PJRT_Event_Destroy, end);
  }

 private:
  void destroy(const std::vector<PJRT_Buffer*>& buffers) {
    for (PJRT_Buffer* buffer : buffers) {
      auto args = zeroed<PJRT_Buffer_Destroy_Args>();
      args.buffer = buffer;
      pjrt::call_quietly(plugin_, &PJRT_Api::PJRT_Buffer_Destroy, args);
    }
  }

  runtime::ClientPtr client_;
  const pjrt::Plugin& plugin_;
  std::vector<runtime::Array> owners_;
  PJRT_LoadedExecutable* executable_ = nullptr;
  bool first_ = true;
  std::vector<PJRT_Buffer*> inputs_;
  std::vector<PJRT_Buffer*> outputs_;
};

int run(const std::string& plugin, int buffers, int pairs) {
  auto client = pjrt::Client::create(pjrt::Plugin::load(plugin, {.deps_dir = STRATA_DEPS_DIR}));
  std::string text = program_text(buffers);
  runtime::Compiler compiler(client, {.cache_dir = {}});
  StrataLoop ours(compiler.compile(text), client, buffers);
  BareLoop bare(client, text, buffers);
  constexpr int kWarmUp = 20;
  Times wall{.name = "wall time", .clock = CLOCK_MONOTONIC};
  Times cpu{.name = "calling thread's CPU time", .clock = CLOCK_THREAD_CPUTIME_ID};
  for (int i = 0; i < kWarmUp + pairs; ++i) {
    double wall_pair[2] = {}, cpu_pair[2] = {};
    // Alternates who goes first.
    for (int turn : {i % 2, 1 - i % 2}) {
      double wall_start = milliseconds(wall.clock), cpu_start = milliseconds(cpu.clock);
      if (turn == 0) ours.step();
      if (turn == 1) bare.step();
      cpu_pair[turn] = milliseconds(cpu.clock) - cpu_start;
      wall_pair[turn] = milliseconds(wall.clock) - wall_start;
    }
    if (i < kWarmUp) continue;
    wall.add(wall_pair);
    cpu.add(cpu_pair);
  }
  if (ours.first_value() != kWarmUp + pairs) {
    fmt::print(stderr, "dispatch_bench: the loop computed {}\n", ours.first_value());
    return 1;
  }
  fmt::print("plugin {}, {} buffers, {} pairs\n", client->plugin()->name(), buffers, pairs);
  wall.print();
  cpu.print();
  return 0;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  try {
    return strata::run(argc > 1 ? argv[1] : "cpu", argc > 2 ? std::atoi(argv[2]) : 650,
                       argc > 3 ? std::atoi(argv[3]) : 400);
  } catch (const strata::Error& e) {
    fmt::print(stderr, "dispatch_bench: {}\n", e.what());
    return 1;
  }
}
