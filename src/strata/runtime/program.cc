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

Json values_json(const std::vector<Signature::Value>& values) {
  Json list = Json::array();
  for (const Signature::Value& v : values) {
    list.push_back({{"dtype", name_of(v.dtype)}, {"dims", v.dims}, {"donated", v.donated}});
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
    for (const Json& dim : item.value("dims", Json::array())) {
      if (dim.is_number_integer()) value.dims.push_back(dim.get<int64_t>());
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

Signature Signature::of(const pjrt::OptimizedProgram& program) {
  Signature signature;
  for (const pjrt::HloShape& shape : program.parameters) {
    std::string where =
        fmt::format("parameter {} of {}", signature.parameters.size(), program.name);
    signature.parameters.push_back({dtype_of_hlo(shape, where), shape.dims, false});
  }
  for (const pjrt::HloShape& shape : program.results) {
    std::string where = fmt::format("result {} of {}", signature.results.size(), program.name);
    signature.results.push_back({dtype_of_hlo(shape, where), shape.dims, false});
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
          .got = fmt::format("{} in the compiled program", values.size())});
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
                 "result"});
  }
  std::vector<int64_t> described;
  for (const Shard& shard : slot.spec->shards) described.push_back(shard.device_id);
  std::vector<int64_t> actual(executable_->device_ids().begin(), executable_->device_ids().end());
  if (described != actual) {
    fail({.id = "runtime.slot_devices",
          .where = where,
          .expected = "devices " + list_text(actual) + ", where the program runs",
          .got = list_text(described)});
  }
  if (slot.donated != value.donated) {
    fail({.id = "runtime.donation",
          .where = where,
          .expected = slot.donated ? "its memory given away, as described"
                                   : "its memory left alone, as described",
          .got = value.donated ? "a donated argument in the compiled program"
                               : "an argument that the compiled program does not reuse",
          .cure = "Give a donated parameter tf.aliasing_output with a result of equal type"});
  }
}

}  // namespace strata::runtime
