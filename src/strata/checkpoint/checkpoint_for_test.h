// The tiny oracle models as trees of arrays in any form, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/hash.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/testing/executor.h"
#include "strata/weights/files_for_test.h"
#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {

// Where stacked parameters carry their layer dim; nothing = every layer has its own.
using Form = std::optional<int64_t>;

inline std::filesystem::path oracle_path(const std::string& family) {
  return std::filesystem::path(STRATA_SOURCE_DIR) / "tests/testdata/oracles" / family;
}

inline runtime::ClientPtr new_client() { return testing::Executor().client(); }

// The manifest of a model with these tensors, all of whose layers (model.layers.N.…) are alike.
inline sharding::Manifest manifest_of(const std::vector<weights::Wanted>& tensors, Form form) {
  const std::string stack = "model.layers";
  std::vector<sharding::Slot> slots;
  std::vector<std::pair<std::string, Dims>> leaves;  // of layer 0
  int64_t layers = 0;
  for (const weights::Wanted& t : tensors) {
    bool in_stack = t.name.compare(0, stack.size() + 1, stack + ".") == 0;
    if (!in_stack || !form) slots.push_back({t.name, sharding::Kind::param, {DType::f32, {}}});
    if (!in_stack || !form) slots.back().type = sharding::plain_type(DType::f32, t.dims);
    if (!in_stack) continue;
    int64_t layer = std::stoll(t.name.substr(stack.size() + 1));
    layers = std::max(layers, layer + 1);
    if (layer != 0) continue;
    leaves.push_back({t.name.substr(t.name.find('.', stack.size() + 1) + 1), t.dims});
  }
  sharding::LayerPlan plan{stack, {{0, 1, layers, form.has_value()}}};
  for (const auto& leaf : leaves) {
    if (!form) break;
    std::string name = plan.stacked_name(0, 0, leaf.first);
    sharding::Dim dim{layers, sharding::Role::layer, "layers", {}};
    slots.push_back(
        {name, sharding::Kind::param,
         insert_layer_dim(sharding::plain_type(DType::f32, leaf.second), *form, dim, name)});
  }
  return sharding::Manifest(std::move(slots), {},
                            layers > 0 ? std::vector{plan} : std::vector<sharding::LayerPlan>{});
}

inline std::vector<weights::Wanted> tensors_of(const weights::TensorSource& source) {
  std::vector<weights::Wanted> out;
  for (const weights::TensorView& t : source.tensors()) out.push_back({t.name, t.dims});
  return out;
}

// Slots of two roles: one like the parameter, and one bf16.
inline std::vector<sharding::Slot> slot_types_of(const sharding::Manifest& model) {
  std::vector<sharding::Slot> out;
  for (const sharding::Slot& slot : model.slots()) {
    out.push_back({"adam.m/" + slot.name, slot.kind, slot.type});
    out.push_back({"adam.v/" + slot.name, slot.kind, slot.type});
    out.back().type.dtype = DType::bf16;
  }
  return out;
}

// An array whose layers hold bytes that depend on their unstacked names and on `seed` only.
inline runtime::Array filled(const sharding::Slot& slot, const runtime::ClientPtr& client,
                             uint64_t seed) {
  HostTensor whole(slot.type.dtype, slot.type.sizes());
  std::vector<weights::Wanted> members = members_of(slot);
  auto axis = slot.type.position_of(sharding::Role::layer);
  size_t inner = size_of(slot.type.dtype);
  for (int64_t i = axis.value_or(0); axis && ++i < slot.type.rank();) {
    inner *= static_cast<size_t>(whole.dims()[static_cast<size_t>(i)]);
  }
  std::vector<size_t> next(members.size(), 0);
  for (size_t at = 0; at < whole.byte_size(); ++at) {
    size_t layer = axis ? at / inner % members.size() : 0;
    uint64_t word = hash64(members[layer].name, seed) + 0x9e3779b97f4a7c15u * next[layer]++;
    // Small exponents, so that no element is a NaN.
    whole.bytes()[at] = static_cast<std::byte>((word >> 40) & 0x3f);
  }
  return runtime::Array::put(client, whole);
}

inline std::vector<runtime::Array> filled(const std::vector<sharding::Slot>& slots,
                                          const runtime::ClientPtr& client, uint64_t seed) {
  std::vector<runtime::Array> out;
  for (const sharding::Slot& slot : slots) out.push_back(filled(slot, client, seed));
  return out;
}

// A model with optimiser state in one form.
struct TinyRun {
  runtime::ClientPtr client;
  std::filesystem::path model_directory;
  sharding::Manifest model;
  std::vector<runtime::Array> parameters;
  std::vector<sharding::Slot> slot_types;
  std::vector<runtime::Array> slots;

  TinyRun(runtime::ClientPtr c, const std::string& family, Form form, uint64_t seed = 1)
      : client(std::move(c)), model_directory(oracle_path(family)) {
    auto source = weights::open_source(model_directory / "model.safetensors");
    model = manifest_of(tensors_of(*source), form);
    parameters = load_parameters(model, *source, client);
    slot_types = slot_types_of(model);
    slots = filled(slot_types, client, seed);
  }
  Contents contents(int64_t step) const {
    Contents out{&model, refs_of(parameters), slot_types, refs_of(slots), {}, model_directory};
    out.run.step = step;
    out.run.counts = {{"count", step}, {"steps_skipped", 2}};
    out.run.loader = {{"epoch", 3}, {"position", 1234567890123}};
    out.run.rng = {0xffffffffu, 7};
    out.run.extra = {{"best", 0.1}, {"note", "ä"}};
    return out;
  }
};

using TensorBytes = std::map<std::string, std::string>;

// The unstacked tensors of a tree.
inline TensorBytes bytes_of_tree(const std::vector<sharding::Slot>& slots,
                                 const ArrayRefs& arrays) {
  TreeReader reader(slots, arrays);
  TensorBytes out;
  for (const weights::TensorSpec& spec : reader.specs()) {
    std::string& bytes = out[spec.name];
    reader.read(spec.name, [&](std::span<const std::byte> piece) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
  }
  return out;
}

}  // namespace strata::checkpoint
