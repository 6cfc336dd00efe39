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

Box whole_box(const Slot& slot) { return {Dims(slot.type.dims.size(), 0), slot.type.sizes()}; }

// Whether each of its tensors is one run of bytes in the array.
bool is_contiguous(const Slot& slot) {
  return runtime::is_contiguous(slot.type.sizes(), layer_box(slot, 0));
}

// Room for the largest array whose tensors are not.
HostTensor bucket_for(std::span<const Slot> slots) {
  int64_t largest = 0;
  for (const Slot& slot : slots) {
    if (!is_contiguous(slot)) largest = std::max(largest, slot.type.bytes());
  }
  return HostTensor(DType::u8, {largest});
}

void check_count(size_t expected, size_t got, const char* what) {
  require(expected == got, {.id = "checkpoint.tree",
                            .where = "tree to be saved",
                            .expected = fmt::format("{} {}", expected, what),
                            .got = fmt::format("{}", got)});
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
  check_count(slots.size(), arrays.size(), "arrays");
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    const runtime::Array& array = *arrays[i];
    if (array.dtype() == slot.type.dtype && array.dims() == slot.type.sizes()) continue;
    fail({.id = "checkpoint.tree",
          .where = "slot " + slot.name,
          .expected = shape_text(slot.type.dtype, slot.type.sizes()),
          .got = shape_text(array.dtype(), array.dims())});
  }
  list_members();
}

TreeReader::TreeReader(std::span<const Slot> slots, std::vector<std::span<const std::byte>> copies)
    : slots_(slots), copies_(std::move(copies)) {
  check_count(slots.size(), copies_.size(), "copies");
  for (size_t i = 0; i < slots.size(); ++i) {
    if (copies_[i].size() == static_cast<size_t>(slots[i].type.bytes())) continue;
    fail({.id = "checkpoint.tree",
          .where = "slot " + slots[i].name,
          .expected = fmt::format("{} bytes", slots[i].type.bytes()),
          .got = fmt::format("{}", copies_[i].size())});
  }
  list_members();
}

void TreeReader::list_members() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    int64_t k = 0;
    for (weights::Wanted& w : members_of(slots_[i])) {
      members_[w.name] = {i, k++};
      specs_.push_back({std::move(w.name), slots_[i].type.dtype, std::move(w.dims)});
    }
  }
}

uint64_t TreeReader::bytes() const {
  uint64_t total = 0;
  for (const weights::TensorSpec& spec : specs_) total += spec.byte_size();
  return total;
}

std::span<const std::byte> TreeReader::held(size_t slot, bool contiguous) {
  if (!copies_.empty()) return copies_[slot];
  if (contiguous) return {};
  const auto size = static_cast<size_t>(slots_[slot].type.bytes());
  if (bucket_.size() == 0) bucket_ = bucket_for(slots_);
  if (held_ != slot) {
    held_ = SIZE_MAX;
    reader_.read(*arrays_[slot], whole_box(slots_[slot]), {bucket_.bytes(), size});
    held_ = slot;
  }
  return {bucket_.bytes(), size};
}

void TreeReader::read(std::string_view name, const Sink& sink) {
  auto found = members_.find(std::string(name));
  invariant(found != members_.end(), "checkpoint.member", "a name out of specs()");
  const Member& member = found->second;
  const Slot& slot = slots_[member.slot];
  const Box all = whole_box(slot);
  const size_t element = size_of(slot.type.dtype);
  const bool contiguous = is_contiguous(slot);
  std::span<const std::byte> whole = held(member.slot, contiguous);
  for_each_piece(
      layer_box(slot, member.layer), static_cast<int64_t>(kPieceBytes / element),
      [&](const Box& box) {
        const size_t size = static_cast<size_t>(box.elements()) * element;
        if (contiguous && !whole.empty()) {
          sink(whole.subspan(static_cast<size_t>(runtime::first_element(all.size, box)) * element,
                             size));
          return;
        }
        piece_.resize(std::max(piece_.size(), size));
        std::span<std::byte> piece = std::span(piece_).first(size);
        if (contiguous) reader_.read(*arrays_[member.slot], box, piece);
        if (!contiguous) {
          runtime::for_each_run(box, all, box, element, [&](size_t from, size_t to, size_t n) {
            std::memcpy(piece.data() + to, whole.data() + from, n);
          });
        }
        sink(piece);
      });
}

}  // namespace strata::checkpoint
