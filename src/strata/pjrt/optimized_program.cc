#include "strata/pjrt/optimized_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/pjrt/hlo_message.h"

namespace strata::pjrt {
namespace {

struct ElementType {
  std::string_view name;
  int bits;
};

// By XLA's PrimitiveType number; an empty name is a number not in use here.
constexpr std::array<ElementType, 34> kElementTypes = {{
    {"", 0},           {"pred", 8},  {"s8", 8},       {"s16", 16},          {"s32", 32},
    {"s64", 64},       {"u8", 8},    {"u16", 16},     {"u32", 32},          {"u64", 64},
    {"f16", 16},       {"f32", 32},  {"f64", 64},     {"tuple", 0},         {"opaque", 0},
    {"c64", 64},       {"bf16", 16}, {"token", 0},    {"c128", 128},        {"f8e5m2", 8},
    {"f8e4m3fn", 8},   {"s4", 4},    {"u4", 4},       {"f8e4m3b11fnuz", 8}, {"f8e5m2fnuz", 8},
    {"f8e4m3fnuz", 8}, {"s2", 2},    {"u2", 2},       {"f8e4m3", 8},        {"f8e3m4", 8},
    {"s1", 1},         {"u1", 1},    {"f4e2m1fn", 4}, {"f8e8m0fnu", 8},
}};

std::string element_name(int64_t type) {
  bool known = type > 0 && static_cast<size_t>(type) < kElementTypes.size();
  return known ? std::string(kElementTypes[static_cast<size_t>(type)].name)
               : "type" + std::to_string(type);
}

int element_bits(std::string_view name) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == name) return type.bits;
  }
  return 0;
}

HloShape read_shape(const wire::Shape& message) {
  HloShape shape{.element = element_name(message.element_type)};
  shape.dims = message.dimensions;
  shape.minor_to_major = message.minor_to_major;
  for (const wire::Shape& part : message.tuple_shapes) shape.parts.push_back(read_shape(part));
  return shape;
}

HloSharding read_sharding(const wire::Sharding& message) {
  constexpr int64_t kReplicated = 0, kTiles = 3;
  using Kind = HloSharding::Kind;
  if (message.type == kReplicated) return {};
  bool replicas = std::all_of(message.last.begin(), message.last.end(),
                              [](int64_t type) { return type == kReplicated; });
  return {.kind = message.type == kTiles && replicas ? Kind::tiles : Kind::other,
          .tiles = message.tiles,
          .listed = message.listed,
          .reshape = message.reshape,
          .order = message.order};
}

// Row-major position of an index, and the index at a position.
int64_t position_of(const Dims& index, const Dims& dims) {
  int64_t at = 0;
  for (size_t i = 0; i < dims.size(); ++i) at = at * dims[i] + index[i];
  return at;
}

Dims index_at(int64_t position, const Dims& dims) {
  Dims index(dims.size());
  for (size_t i = dims.size(); i-- > 0; position /= dims[i]) index[i] = position % dims[i];
  return index;
}

// Partition numbers in the order of the tiles; empty when the numbers do not fit together.
Dims partitions_of(const HloSharding& s) {
  if (!s.listed.empty()) return s.listed;
  Dims transposed, sorted = s.order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != s.reshape.size() || sorted[i] != static_cast<int64_t>(i)) return {};
  }
  for (int64_t from : s.order) transposed.push_back(s.reshape[static_cast<size_t>(from)]);
  Dims out, index(s.reshape.size());
  for (int64_t i = 0; i < element_count(transposed); ++i) {
    Dims at = index_at(i, transposed);
    for (size_t k = 0; k < at.size(); ++k) index[static_cast<size_t>(s.order[k])] = at[k];
    out.push_back(position_of(index, s.reshape));
  }
  return out;
}

using Names = std::unordered_map<int64_t, std::string>;

HloInstruction read_instruction(const wire::Instruction& message, const std::string& computation,
                                const Names& instructions, const Names& computations) {
  HloInstruction out{.computation = computation,
                     .name = message.name,
                     .opcode = message.opcode,
                     .shape = read_shape(message.shape),
                     .op_name = message.op_name,
                     .target = message.custom_call_target,
                     .operands = {},
                     .called = {},
                     .parameter_number = message.parameter_number,
                     .group_size = message.group_size.value_or(0)};
  for (int64_t id : message.operand_ids) {
    auto it = instructions.find(id);
    if (it != instructions.end()) out.operands.push_back(it->second);
  }
  for (int64_t id : message.called_computation_ids) {
    auto it = computations.find(id);
    if (it != computations.end()) out.called.push_back(it->second);
  }
  return out;
}

// The signature of one device: the entry's parameters by number, and its root's shape.
void read_entry(const wire::Computation& entry, OptimizedProgram& program) {
  std::vector<std::pair<int64_t, HloShape>> parameters;
  for (const wire::Instruction& instruction : entry.instructions) {
    if (instruction.opcode == "parameter") {
      parameters.emplace_back(instruction.parameter_number, read_shape(instruction.shape));
    }
    if (instruction.id == entry.root_id) {
      HloShape root = read_shape(instruction.shape);
      program.results = root.element == "tuple" ? root.parts : std::vector<HloShape>{root};
    }
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& parameter : parameters) program.parameters.push_back(std::move(parameter.second));
}

void read_shardings(const wire::Module& module, OptimizedProgram& program) {
  constexpr int64_t kTuple = 2;
  for (const wire::Sharding& s : module.parameters) {
    program.parameter_shardings.push_back(read_sharding(s));
  }
  if (!module.results) return;
  if (module.results->type != kTuple) program.result_shardings = {read_sharding(*module.results)};
  for (const wire::Sharding& s : module.results->parts) {
    program.result_shardings.push_back(read_sharding(s));
  }
}

constexpr std::array<std::string_view, 8> kCollectives = {
    "all-reduce",         "all-gather",           "reduce-scatter",    "all-to-all",
    "collective-permute", "collective-broadcast", "ragged-all-to-all", "send"};

// An asynchronous start returns (operands, results, …); what travels are the results.
int64_t moved_bytes(const HloInstruction& instruction, bool start) {
  const HloShape& shape = instruction.shape;
  bool pair = start && shape.element == "tuple" && shape.parts.size() >= 2 &&
              instruction.opcode != "all-reduce-start";
  return pair ? shape.parts[1].bytes() : shape.bytes();
}

}  // namespace

int64_t HloShape::bytes() const {
  if (element == "tuple") {
    int64_t sum = 0;
    for (const HloShape& part : parts) sum += part.bytes();
    return sum;
  }
  return (element_count(dims) * element_bits(element) + 7) / 8;
}

std::string HloShape::text() const {
  if (element != "tuple") return fmt::format("{}[{}]", element, fmt::join(dims, ","));
  std::vector<std::string> texts;
  for (const HloShape& part : parts) texts.push_back(part.text());
  return "(" + join(texts, ", ") + ")";
}

bool HloShape::row_major() const {
  for (size_t i = 0; i < minor_to_major.size(); ++i) {
    if (minor_to_major[i] != static_cast<int64_t>(minor_to_major.size() - 1 - i)) return false;
  }
  return true;
}

std::vector<Dims> HloSharding::parts(int64_t partitions, size_t rank) const {
  if (kind == Kind::whole) return std::vector<Dims>(static_cast<size_t>(partitions), Dims(rank, 0));
  Dims order_of_tiles = partitions_of(*this);
  auto count = static_cast<int64_t>(order_of_tiles.size());
  if (kind == Kind::other || tiles.size() < rank || count != partitions ||
      element_count(tiles) != partitions) {
    return {};
  }
  std::vector<Dims> out(static_cast<size_t>(partitions));
  for (int64_t i = 0; i < count; ++i) {
    int64_t partition = order_of_tiles[static_cast<size_t>(i)];
    if (partition < 0 || partition >= partitions) return {};
    Dims part = index_at(i, tiles);
    part.resize(rank);
    out[static_cast<size_t>(partition)] = std::move(part);
  }
  return out;
}

OptimizedProgram OptimizedProgram::parse(std::string_view bytes) {
  std::optional<wire::Module> module = wire::parse_module_with_config(bytes);
  if (!module) {
    fail({.id = "pjrt.hlo_parse",
          .where = "optimised program of the plug-in",
          .expected = "a serialised HloModuleProtoWithConfig",
          .got = fmt::format("{} bytes that are none", bytes.size()),
          .code = Code::data_loss});
  }
  OptimizedProgram program;
  program.name = module->name;
  Names instructions, computations;
  for (const wire::Computation& computation : module->computations) {
    computations[computation.id] = computation.name;
    for (const wire::Instruction& i : computation.instructions) instructions[i.id] = i.name;
  }
  for (const wire::Computation& computation : module->computations) {
    if (computation.id == module->entry_computation_id) read_entry(computation, program);
    for (const wire::Instruction& instruction : computation.instructions) {
      program.instructions.push_back(
          read_instruction(instruction, computation.name, instructions, computations));
    }
  }
  for (const wire::Alias& alias : module->aliases) {
    bool tuple = !alias.output_shape_index.empty();
    program.aliases.push_back(
        {.output = tuple ? alias.output_shape_index[0] : 0, .parameter = alias.parameter_number});
  }
  program.donors = module->donors;
  read_shardings(*module, program);
  return program;
}

std::vector<Collective> OptimizedProgram::collectives() const {
  constexpr std::string_view kStart = "-start";
  std::vector<Collective> found;
  for (const HloInstruction& i : instructions) {
    std::string_view kind = i.opcode;
    bool start = kind.size() > kStart.size() && kind.substr(kind.size() - kStart.size()) == kStart;
    if (start) kind.remove_suffix(kStart.size());
    if (std::find(kCollectives.begin(), kCollectives.end(), kind) == kCollectives.end()) continue;
    found.push_back({.kind = std::string(kind),
                     .computation = i.computation,
                     .name = i.name,
                     .op_name = i.op_name,
                     .bytes = moved_bytes(i, start),
                     .group_size = i.group_size});
  }
  return found;
}

std::string OptimizedProgram::text() const {
  std::string out = "module " + name + "\n";
  std::string computation;
  for (const HloInstruction& i : instructions) {
    if (i.computation != computation) {
      computation = i.computation;
      out += computation + ":\n";
    }
    out +=
        fmt::format("  {} = {} {}({})", i.name, i.shape.text(), i.opcode, join(i.operands, ", "));
    if (!i.called.empty()) out += " calls " + join(i.called, ", ");
    if (!i.target.empty()) out += " target " + i.target;
    if (!i.op_name.empty()) out += "  # " + i.op_name;
    out += "\n";
  }
  return out;
}

}  // namespace strata::pjrt
