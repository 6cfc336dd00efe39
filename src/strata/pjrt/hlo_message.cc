#include "strata/pjrt/hlo_message.h"

#include "strata/pjrt/wire.h"

namespace strata::pjrt::wire {
namespace {

// Tuples nest; a damaged message must not exhaust the stack.
constexpr int kMaxDepth = 64;

// The repeated number `wanted` of a submessage.
std::vector<int64_t> numbers_field(std::string_view bytes, uint32_t wanted) {
  std::vector<int64_t> out;
  for (WireReader r(bytes); r.next();) {
    if (r.field() == wanted) r.append_to(out);
  }
  return out;
}

bool parse(std::string_view bytes, Shape& out, int depth = 0) {
  if (depth > kMaxDepth) return false;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 2) out.element_type = r.number();
    if (r.field() == 3) r.append_to(out.dimensions);
    if (r.field() == 4 && !parse(r.bytes(), out.tuple_shapes.emplace_back(), depth + 1)) {
      return false;
    }
    if (r.field() == 5) out.minor_to_major = numbers_field(r.bytes(), 1);
  }
  return !r.failed();
}

bool parse(std::string_view bytes, Sharding& out, int depth = 0) {
  if (depth > kMaxDepth) return false;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) out.type = r.number();
    if (r.field() == 3) r.append_to(out.tiles);
    if (r.field() == 4) r.append_to(out.listed);
    if (r.field() == 5 && !parse(r.bytes(), out.parts.emplace_back(), depth + 1)) return false;
    if (r.field() == 8) r.append_to(out.last);
    if (r.field() == 9) r.append_to(out.reshape);
    if (r.field() == 10) r.append_to(out.order);
  }
  return !r.failed();
}

// The one text field `wanted` of a submessage.
std::string text_field(std::string_view bytes, uint32_t wanted) {
  std::string out;
  for (WireReader r(bytes); r.next();) {
    if (r.field() == wanted) out = r.bytes();
  }
  return out;
}

bool parse(std::string_view bytes, Instruction& out) {
  WireReader r(bytes);
  while (r.next()) {
    switch (r.field()) {
      case 1:
        out.name = r.bytes();
        break;
      case 2:
        out.opcode = r.bytes();
        break;
      case 3:
        if (!parse(r.bytes(), out.shape)) return false;
        break;
      case 7:
        out.op_name = text_field(r.bytes(), 2);
        break;
      case 9:
        out.parameter_number = r.number();
        break;
      case 28:
        out.custom_call_target = r.bytes();
        break;
      case 35:
        out.id = r.number();
        break;
      case 36:
        r.append_to(out.operand_ids);
        break;
      case 38:
        r.append_to(out.called_computation_ids);
        break;
      case 49:
        if (!out.group_size) {
          out.group_size = static_cast<int64_t>(numbers_field(r.bytes(), 1).size());
        }
        break;
      default:
        break;
    }
  }
  return !r.failed();
}

bool parse(std::string_view bytes, Computation& out) {
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1) out.name = r.bytes();
    if (r.field() == 2 && !parse(r.bytes(), out.instructions.emplace_back())) return false;
    if (r.field() == 5) out.id = r.number();
    if (r.field() == 6) out.root_id = r.number();
  }
  return !r.failed();
}

bool parse_aliases(std::string_view bytes, std::vector<Alias>& out) {
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() != 1) continue;
    Alias& alias = out.emplace_back();
    WireReader entry(r.bytes());
    while (entry.next()) {
      if (entry.field() == 1) entry.append_to(alias.output_shape_index);
      if (entry.field() == 2) alias.parameter_number = entry.number();
    }
    if (entry.failed()) return false;
  }
  return !r.failed();
}

bool parse_donors(std::string_view bytes, std::vector<int64_t>& out) {
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() != 1) continue;
    // A donor of parameter 0 leaves its number out.
    int64_t parameter = 0;
    for (int64_t n : numbers_field(r.bytes(), 1)) parameter = n;
    out.push_back(parameter);
  }
  return !r.failed();
}

bool parse(std::string_view bytes, Module& out) {
  WireReader r(bytes);
  while (r.next()) {
    switch (r.field()) {
      case 1:
        out.name = r.bytes();
        break;
      case 3:
        if (!parse(r.bytes(), out.computations.emplace_back())) return false;
        break;
      case 6:
        out.entry_computation_id = r.number();
        break;
      case 8:
        if (!parse_aliases(r.bytes(), out.aliases)) return false;
        break;
      case 12:
        if (!parse(r.bytes(), out.results.emplace())) return false;
        break;
      case 14:
        if (!parse(r.bytes(), out.parameters.emplace_back())) return false;
        break;
      case 18:
        if (!parse_donors(r.bytes(), out.donors)) return false;
        break;
      default:
        break;
    }
  }
  return !r.failed();
}

}  // namespace

std::optional<Module> parse_module_with_config(std::string_view bytes) {
  std::optional<Module> out;
  WireReader r(bytes);
  while (r.next()) {
    if (r.field() == 1 && !parse(r.bytes(), out.emplace())) return std::nullopt;
  }
  if (r.failed() || !out || out->computations.empty()) return std::nullopt;
  return out;
}

}  // namespace strata::pjrt::wire
