#include "strata/runtime/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::runtime {
namespace {

// XLA spells integers s32 / u32; the rest are spelled as ours.
DType dtype_of_hlo(const pjrt::HloShape& shape, const std::string& where) {
  std::string name = shape.element;
  if (name.size() > 1 && name[0] == 's') name[0] = 'i';
  for (int d = 0; d <= static_cast<int>(DType::f64); ++d) {
    if (name_of(static_cast<DType>(d)) == name) return static_cast<DType>(d);
  }
  unimplemented({.id = "runtime.signature_type",
                 .where = where,
                 .expected = "an array of a known element type",
                 .got = shape.text()});
}

Dims dims_from(const Json& item, const char* key) {
  Dims dims;
  for (const Json& dim : item.value(key, Json::array())) {
    if (dim.is_number_integer()) dims.push_back(dim.get<int64_t>());
  }
  return dims;
}

Json sharding_json(const pjrt::HloSharding& s) {
  return {{"kind", static_cast<int>(s.kind)},
          {"tiles", s.tiles},
          {"listed", s.listed},
          {"reshape", s.reshape},
          {"order", s.order}};
}

pjrt::HloSharding sharding_from(const Json& item, const std::string& where) {
  int64_t kind = get_int(item, "kind", where);
  bool known = kind >= 0 && kind < static_cast<int64_t>(pjrt::HloSharding::Kind::other);
  return {
      .kind = known ? static_cast<pjrt::HloSharding::Kind>(kind) : pjrt::HloSharding::Kind::other,
      .tiles = dims_from(item, "tiles"),
      .listed = dims_from(item, "listed"),
      .reshape = dims_from(item, "reshape"),
      .order = dims_from(item, "order")};
}

// Value `number` of a program as the compiler lays it out.
Signature::Value value_of(const std::vector<pjrt::HloShape>& shapes,
                          const std::vector<pjrt::HloSharding>& shardings, size_t number,
                          const std::string& where) {
  const pjrt::HloShape& shape = shapes[number];
  Signature::Value value{dtype_of_hlo(shape, where), shape.dims, false, {}};
  if (!shape.row_major()) {
    fail({.id = "runtime.slot_layout",
          .where = where,
          .expected = shape.text() + " with the last dim innermost, as mhlo.layout_mode asks for",
          .got = "dims from the innermost on: " + list_text(shape.minor_to_major),
          .code = Code::internal});
  }
  if (number < shardings.size()) value.sharding = shardings[number];
  return value;
}

Json values_json(const std::vector<Signature::Value>& values) {
  Json list = Json::array();
  for (const Signature::Value& v : values) {
    list.push_back({{"dtype", name_of(v.dtype)}, {"dims", v.dims}, {"donated", v.donated}});
    if (v.sharding) list.back()["sharding"] = sharding_json(*v.sharding);
  }
  return list;
}

std::vector<Signature::Value> values_from(const Json& object, const char* key) {
  constexpr const char* kWhere = "compile cache entry";
  std::vector<Signature::Value> values;
  if (!object.is_object() || !object.contains(key) || !object[key].is_array()) {
    fail({.id = "runtime.signature_json",
          .where = kWhere,
          .expected = std::string("a list under '") + key + "'",
          .got = "none",
          .code = Code::data_loss});
  }
  for (const Json& item : object[key]) {
    Signature::Value value;
    value.dtype = parse_dtype(get_string(item, "dtype", kWhere));
    value.donated = get_bool_or(item, "donated", false, kWhere);
    value.dims = dims_from(item, "dims");
    if (item.contains("sharding")) value.sharding = sharding_from(item["sharding"], kWhere);
    values.push_back(std::move(value));
  }
  return values;
}

// Partition p of a program runs on the p-th device: what it holds of the value is the p-th shard.
void check_sharding(const Slot& slot, const Signature::Value& value, const std::string& where) {
  const std::vector<Shard>& shards = slot.spec->shards;
  if (!value.sharding || shards.size() == 1) return;
  const std::vector<Dims> parts =
      value.sharding->parts(static_cast<int64_t>(shards.size()), value.dims.size());
  for (size_t p = 0; p < shards.size(); ++p) {
    Dims start = p < parts.size() ? parts[p] : Dims{};
    for (size_t d = 0; d < start.size(); ++d) start[d] *= value.dims[d];
    if (p < parts.size() && start == shards[p].box.start) continue;
    fail({.id = "runtime.slot_sharding",
          .where = where,
          .expected = fmt::format("{} from {} on, on device {}, as described",
                                  shape_text(slot.spec->dtype, value.dims),
                                  list_text(shards[p].box.start), shards[p].device_id),
          .got = p < parts.size() ? "from " + list_text(start) + " on in the compiled program"
                                  : "a sharding that is neither whole nor in tiles",
          .cure = "Annotate every argument and result with the mesh axes of its spec",
          .code = Code::internal});
  }
}

}  // namespace

Signature Signature::of(const pjrt::OptimizedProgram& program) {
  Signature signature;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    signature.parameters.push_back(value_of(program.parameters, program.parameter_shardings, i,
                                            fmt::format("parameter {} of {}", i, program.name)));
  }
  for (size_t i = 0; i < program.results.size(); ++i) {
    signature.results.push_back(value_of(program.results, program.result_shardings, i,
                                         fmt::format("result {} of {}", i, program.name)));
  }
  for (const pjrt::HloAlias& alias : program.aliases) {
    signature.parameters.at(static_cast<size_t>(alias.parameter)).donated = true;
  }
  for (int64_t donor : program.donors) {
    signature.parameters.at(static_cast<size_t>(donor)).donated = true;
  }
  return signature;
}

std::string Signature::json() const {
  return Json{{"parameters", values_json(parameters)}, {"results", values_json(results)}}.dump();
}

Signature Signature::from_json(std::string_view text) {
  Json object = parse_json(text, "compile cache entry");
  return {.parameters = values_from(object, "parameters"),
          .results = values_from(object, "results")};
}

Program::Program(std::string name, std::shared_ptr<const pjrt::Executable> executable,
                 const Signature& signature, std::vector<Slot> parameters,
                 std::vector<Slot> results, ProgramTimes times)
    : name_(std::move(name)),
      executable_(std::move(executable)),
      parameters_(std::move(parameters)),
      results_(std::move(results)),
      times_(times) {
  check_slots(parameters_, signature.parameters, "parameter");
  check_slots(results_, signature.results, "result");
  share_specs();
}

void Program::share_specs() {
  std::vector<SpecPtr> distinct;
  for (std::vector<Slot>* slots : {&parameters_, &results_}) {
    for (Slot& slot : *slots) {
      auto same = std::find_if(distinct.begin(), distinct.end(),
                               [&](const SpecPtr& known) { return *known == *slot.spec; });
      if (same != distinct.end()) {
        slot.spec = *same;
      } else {
        distinct.push_back(slot.spec);
      }
    }
  }
}

void Program::check_slots(std::vector<Slot>& slots, const std::vector<Signature::Value>& values,
                          const char* kind) {
  const std::vector<int>& devices = executable_->device_ids();
  if (slots.empty() && !values.empty()) {
    if (devices.size() != 1) {
      fail({.id = "runtime.describe",
            .where = "program " + name_,
            .expected = fmt::format("a description of its {}s, since it runs on {} devices", kind,
                                    devices.size()),
            .got = "none"});
    }
    for (const Signature::Value& value : values) {
      slots.push_back({.name = fmt::format("{} {}", kind, slots.size()),
                       .spec = ArraySpec::single(value.dtype, value.dims, devices[0]),
                       .donated = value.donated});
    }
  }
  if (slots.size() != values.size()) {
    fail({.id = "runtime.slot_count",
          .where = "program " + name_,
          .expected = fmt::format("{} {}s, as described", slots.size(), kind),
          .got = fmt::format("{} in the compiled program", values.size()),
          .code = Code::internal});
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    check_slot(slots[i], values[i],
               fmt::format("program {}, {} {} '{}'", name_, kind, i, slots[i].name));
  }
}

void Program::check_slot(const Slot& slot, const Signature::Value& value,
                         const std::string& where) const {
  invariant(slot.spec != nullptr, "runtime.slot_spec", "a spec for every described slot");
  for (const Shard& shard : slot.spec->shards) {
    if (slot.spec->dtype == value.dtype && shard.box.size == value.dims) continue;
    fail(
        {.id = "runtime.slot_type",
         .where = where,
         .expected = shape_text(slot.spec->dtype, shard.box.size) + " on each device, as described",
         .got = shape_text(value.dtype, value.dims) + " in the compiled program",
         .cure = "Shard only dims that their mesh axes divide, and annotate every argument and "
                 "result",
         .code = Code::internal});
  }
  std::vector<int64_t> described;
  for (const Shard& shard : slot.spec->shards) described.push_back(shard.device_id);
  std::vector<int64_t> actual(executable_->device_ids().begin(), executable_->device_ids().end());
  if (described != actual) {
    fail({.id = "runtime.slot_devices",
          .where = where,
          .expected = "devices " + list_text(actual) + ", where the program runs",
          .got = list_text(described),
          .code = Code::internal});
  }
  check_sharding(slot, value, where);
  check_donation(slot, value, where);
}

void Program::check_donation(const Slot& slot, const Signature::Value& value,
                             const std::string& where) const {
  if (slot.donated != value.donated) {
    fail({.id = "runtime.donation",
          .where = where,
          .expected = slot.donated ? "its memory given away, as described"
                                   : "its memory left alone, as described",
          .got = value.donated ? "a donated argument in the compiled program"
                               : "an argument that the compiled program does not reuse",
          .cure = "Give a donated parameter tf.aliasing_output with a result of equal type",
          .code = Code::internal});
  }
}

}  // namespace strata::runtime
