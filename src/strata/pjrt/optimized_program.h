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
  Dims minor_to_major = {};  // order of the dims in memory; empty = not told

  // Bytes of the data, all parts of a tuple together; 4-bit types count half a byte each.
  int64_t bytes() const;
  // "f32[2,3]", "(f32[2], s32[])".
  std::string text() const;
  // Whether the last dim is the innermost in memory, as host arrays lie. True where nothing is
  // told.
  bool row_major() const;
};

// How an array is shared out over the partitions of a program.
struct HloSharding {
  // All of it on each partition; in parts; or in a way that no array of Strata has.
  enum class Kind { whole, tiles, other };
  Kind kind = Kind::whole;
  // Parts of each dim, then of replicas. The partitions that hold them, row-major, are `listed`, or
  // 0, 1, … in an array of dims `reshape`, transposed by `order`.
  Dims tiles = {}, listed = {}, reshape = {}, order = {};

  // Which part of each dim of an array of `rank` dims a partition holds, for each partition; empty
  // for Kind::other or when the numbers do not fit together.
  std::vector<Dims> parts(int64_t partitions, size_t rank) const;

  friend bool operator==(const HloSharding&, const HloSharding&) = default;
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
  // One a parameter and result; empty where the program runs on one device or does not tell.
  std::vector<HloSharding> parameter_shardings, result_shardings;
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
