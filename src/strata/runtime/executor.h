// Running programs on Arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strata/runtime/array.h"
#include "strata/runtime/program.h"

namespace strata::runtime {

// One argument of a run. Points at the caller's Array, which must live through the call.
struct Argument {
  // Reads the array and leaves it alone, even where the program would take its memory (XLA then
  // copies it first).
  static Argument borrow(const Array& array) { return {.array = const_cast<Array*>(&array)}; }
  // Gives the array's memory to the program: after a successful run the array is consumed.
  static Argument donate(Array& array) { return {.array = &array, .donated = true}; }

  Array* array = nullptr;
  bool donated = false;
};

// Runs one program again and again; what it needs per call is kept and reused. Not thread-safe:
// one for each thread, all sharing the Program.
class Executor {
 public:
  explicit Executor(std::shared_ptr<const Program> program);

  const Program& program() const { return *program_; }

  // Starts the program and returns its results at once; they become ready (or fail) later, and
  // may be passed on before that. Everything is checked before anything is given away. Throws
  // invalid_argument: "runtime.argument_count"; "runtime.argument_type" (dtype, dims, shards or
  // devices other than the parameter's); "runtime.donate_unused" (donated to a parameter that the
  // program only reads, where donation would silently do nothing); "runtime.donate_view";
  // "runtime.donate_shared" (a donated array that is also another argument);
  // failed_precondition "runtime.array_consumed"; and "pjrt.call". Errors carry "while running
  // NAME". After the first run every result's buffers are compared with the program's results, as
  // Array does (internal "runtime.array_layout"); later runs give the same.
  std::vector<Array> run(std::span<const Argument> arguments);

  // Blocks until the last run is over on all devices. Throws its failure.
  void wait() const;

 private:
  void check(std::span<const Argument> arguments) const;
  void check_argument(size_t index, const Argument& argument) const;
  void check_shared(std::span<const Argument> arguments) const;
  void fill(std::span<const Argument> arguments);
  std::vector<Array> wrap(std::vector<pjrt::Buffer> outputs);

  std::shared_ptr<const Program> program_;
  pjrt::ExecuteScratch scratch_;
  std::vector<const pjrt::Buffer*> buffers_;
  std::vector<int64_t> keep_;
  std::vector<pjrt::Event> done_;
  bool results_checked_ = false;
};

// Runs `program` (of one device) on host tensors and returns its results on the host: for tests,
// tools and single answers, not for loops. Donated parameters are donated.
std::vector<HostTensor> run_on_host(const std::shared_ptr<const Program>& program,
                                    std::span<const HostTensor> arguments);

}  // namespace strata::runtime
