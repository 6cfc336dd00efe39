// The fields of XLA's HloModuleProtoWithConfig that Strata reads out of an optimised program, with
// their public numbers. Everything else in the message is skipped. Internal to room pjrt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::pjrt::wire {

struct Shape {
  int64_t element_type = 0;             // 2
  std::vector<int64_t> dimensions;      // 3
  std::vector<Shape> tuple_shapes;      // 4
  std::vector<int64_t> minor_to_major;  // 5 (layout).1
};

struct Sharding {
  int64_t type = 0;              // 1
  std::vector<int64_t> tiles;    // 3
  std::vector<int64_t> listed;   // 4
  std::vector<Sharding> parts;   // 5, of a tuple
  std::vector<int64_t> last;     // 8: types of the tiles behind the array's own dims
  std::vector<int64_t> reshape;  // 9
  std::vector<int64_t> order;    // 10
};

struct Instruction {
  std::string name;                             // 1
  std::string opcode;                           // 2
  Shape shape;                                  // 3
  std::string op_name;                          // 7 (metadata).2
  int64_t parameter_number = 0;                 // 9
  std::string custom_call_target;               // 28
  int64_t id = 0;                               // 35
  std::vector<int64_t> operand_ids;             // 36
  std::vector<int64_t> called_computation_ids;  // 38
  std::optional<int64_t> group_size;            // 49 (replica_groups).1: length of the first
};

struct Computation {
  std::string name;                       // 1
  std::vector<Instruction> instructions;  // 2
  int64_t id = 0;                         // 5
  int64_t root_id = 0;                    // 6
};

struct Alias {
  std::vector<int64_t> output_shape_index;  // 1
  int64_t parameter_number = 0;             // 2
};

struct Module {
  std::string name;                       // 1
  std::vector<Computation> computations;  // 3
  int64_t entry_computation_id = 0;       // 6
  std::vector<Alias> aliases;             // 8 (input_output_alias).1
  std::optional<Sharding> results;        // 12
  std::vector<Sharding> parameters;       // 14
  std::vector<int64_t> donors;            // 18 (buffer_donor).1 (entry).1
};

// The module inside a serialised HloModuleProtoWithConfig (its field 1); empty when the bytes are
// no such message.
std::optional<Module> parse_module_with_config(std::string_view bytes);

}  // namespace strata::pjrt::wire
