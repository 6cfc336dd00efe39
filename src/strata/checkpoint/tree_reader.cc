#include "strata/checkpoint/tree_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "strata/base/error.h"
#include "strata/runtime/box_copy.h"

namespace strata::checkpoint {

using sharding::Box;
using sharding::Role;
using sharding::Slot;

namespace {

// Room for the largest array, or for one layer of the array whose layers are the largest.
HostTensor buffer_for(std::span<const Slot> slots, bool one_layer) {
  int64_t largest = 1;
  for (const Slot& slot : slots) {
    auto axis = slot.type.position_of(Role::layer);
    if (one_layer && !axis) continue;
    int64_t layers = one_layer ? slot.type.dims[static_cast<size_t>(*axis)].size : 1;
    largest = std::max(largest, slot.type.bytes() / std::max<int64_t>(layers, 1));
  }
  return HostTensor(DType::u8, {largest});
}

}  // namespace

ArrayRefs refs_of(const std::vector<runtime::Array>& arrays) {
  ArrayRefs refs;
  for (const runtime::Array& array : arrays) refs.push_back(&array);
  return refs;
}

ArrayRefs refs_of(const runtime::ParameterTable& table) {
  ArrayRefs refs;
  for (const auto& entry : table.entries()) refs.push_back(entry.second.get());
  return refs;
}

std::vector<weights::Wanted> members_of(const Slot& slot) {
  auto parsed = sharding::parse_stacked_name(slot.name);
  if (!parsed) return {{slot.name, slot.type.sizes()}};
  Dims dims = erase_layer_dim(slot.type, Role::layer, slot.name).sizes();
  int64_t layers = slot.type.dims[static_cast<size_t>(*slot.type.position_of(Role::layer))].size;
  // In this form, as nothing bounds the numbers in a name.
  require((parsed->end - parsed->begin - 1) / parsed->step + 1 == layers,
          {.id = "checkpoint.layers",
           .where = "slot " + slot.name,
           .expected = "as many layers as its name counts",
           .got = fmt::format("{}", layers)});
  std::vector<weights::Wanted> out;
  for (std::string& name : parsed->layer_names()) out.push_back({std::move(name), dims});
  return out;
}

Box layer_box(const Slot& slot, int64_t k) {
  Box box{Dims(slot.type.dims.size(), 0), slot.type.sizes()};
  if (auto axis = slot.type.position_of(Role::layer)) {
    box.start[static_cast<size_t>(*axis)] = k;
    box.size[static_cast<size_t>(*axis)] = 1;
  }
  return box;
}

std::vector<runtime::SpecPtr> specs_of(std::span<const Slot> slots, const sharding::Mesh& mesh,
                                       std::optional<DType> dtype) {
  std::vector<runtime::SpecPtr> specs;
  for (const Slot& slot : slots) {
    sharding::ParamType type = slot.type;
    type.dtype = dtype.value_or(type.dtype);
    specs.push_back(runtime::ArraySpec::sharded(type, mesh, slot.name));
  }
  return specs;
}

TreeReader::TreeReader(std::span<const Slot> slots, const ArrayRefs& arrays)
    : slots_(slots), arrays_(arrays) {
  require(slots.size() == arrays.size(), {.id = "checkpoint.tree",
                                          .where = "tree to be saved",
                                          .expected = fmt::format("{} arrays", slots.size()),
                                          .got = fmt::format("{}", arrays.size())});
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    const runtime::Array& array = *arrays[i];
    if (array.dtype() != slot.type.dtype || array.dims() != slot.type.sizes()) {
      fail({.id = "checkpoint.tree",
            .where = "slot " + slot.name,
            .expected = shape_text(slot.type.dtype, slot.type.sizes()),
            .got = shape_text(array.dtype(), array.dims())});
    }
    int64_t k = 0;
    for (weights::Wanted& w : members_of(slot)) {
      members_[w.name] = {i, k++};
      specs_.push_back({std::move(w.name), slot.type.dtype, std::move(w.dims)});
    }
  }
}

uint64_t TreeReader::bytes() const {
  uint64_t total = 0;
  for (const weights::TensorSpec& spec : specs_) total += spec.byte_size();
  return total;
}

std::span<const std::byte> TreeReader::read(std::string_view name) {
  auto found = members_.find(std::string(name));
  invariant(found != members_.end(), "checkpoint.member", "a name out of specs()");
  const Member& member = found->second;
  const Slot& slot = slots_[member.slot];
  const Dims dims = slot.type.sizes();
  if (held_ != member.slot) {
    held_ = SIZE_MAX;
    if (whole_.size() == 0) whole_ = buffer_for(slots_, false);
    arrays_[member.slot]->get({whole_.bytes(), static_cast<size_t>(slot.type.bytes())});
    held_ = member.slot;
  }
  const size_t element = size_of(slot.type.dtype);
  const Box box = layer_box(slot, member.layer);
  const size_t size = static_cast<size_t>(box.elements()) * element;
  if (size == 0) return {};
  if (runtime::is_contiguous(dims, box)) {
    size_t begin = static_cast<size_t>(runtime::first_element(dims, box)) * element;
    return {whole_.bytes() + begin, size};
  }
  if (part_.size() == 0) part_ = buffer_for(slots_, true);
  const Box all{Dims(dims.size(), 0), dims};
  runtime::for_each_run(box, all, box, element, [&](size_t from, size_t to, size_t n) {
    std::memcpy(part_.bytes() + to, whole_.bytes() + from, n);
  });
  return {part_.bytes(), size};
}

}  // namespace strata::checkpoint
