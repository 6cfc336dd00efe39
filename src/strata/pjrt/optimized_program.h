// What the compiler made of a program: XLA's optimised module of one device, reduced to the fields
// that reports and checks need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/host_tensor.h"

namespace strata::pjrt {

// A value's shape: an array, or a tuple when `element` is "tuple".
struct HloShape {
  std::string element;  // XLA's spelling: "f32", "bf16", "pred", "s32", "u8", "token", "tuple"
  Dims dims = {};
  std::vector<HloShape> parts = {};

  // Bytes of the data, all parts of a tuple together; 4-bit types count half a byte each.
  int64_t bytes() const;
  // "f32[2,3]", "(f32[2], s32[])".
  std::string text() const;
};

struct HloInstruction {
  std::string computation;
  std::string name;
  std::string opcode;
  HloShape shape;
  std::string op_name;  // where it came from: the text of our loc(...)
  std::string target;   // of a custom call
  std::vector<std::string> operands;
  std::vector<std::string> called;  // computations (loop bodies, fusions, …)
  int64_t parameter_number = 0;
  int64_t group_size = 0;  // devices of a collective's first group; 0 = all, or unlisted
};

// One collective operation as it stands in the program; one inside a loop body counts once.
struct Collective {
  std::string kind;  // "all-reduce", "all-gather", "reduce-scatter", "all-to-all", …
  std::string computation;
  std::string name;
  std::string op_name;
  int64_t bytes = 0;  // of its result on one device
  int64_t group_size = 0;
};

// That result `output` lies in the memory of argument `parameter`.
struct HloAlias {
  int64_t output = 0;
  int64_t parameter = 0;
};

struct OptimizedProgram {
  std::string name;
  std::vector<HloShape> parameters;  // of one device
  std::vector<HloShape> results;     // of one device
  std::vector<HloAlias> aliases;
  std::vector<int64_t> donors;  // parameters given away without a fixed result
  std::vector<HloInstruction> instructions;

  // Reads a serialised HloModuleProtoWithConfig. Throws data_loss "pjrt.hlo_parse" when the bytes
  // are none.
  static OptimizedProgram parse(std::string_view bytes);

  std::vector<Collective> collectives() const;
  // One line an instruction, by computation, for reading.
  std::string text() const;
};

}  // namespace strata::pjrt
