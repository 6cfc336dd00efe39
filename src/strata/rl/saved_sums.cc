#include "strata/rl/saved_sums.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "strata/checkpoint/tree_reader.h"

namespace strata::rl {
namespace {

using checkpoint::TensorEntry;
using sharding::Kind;
using sharding::Slot;

// The gradient of a parameter as one device holds all of it.
sharding::ParamType whole_type(const sharding::ParamType& parameter) {
  sharding::ParamType type = parameter;
  type.dtype = DType::f32;
  for (sharding::Dim& dim : type.dims) dim.axes.clear();
  return type;
}

// The type that the checkpoint has a sum in, where it differs from the plan's by its parts only.
sharding::ParamType saved_type(const optim::SlotSpec& planned, const sharding::ParamType& parameter,
                               const std::unordered_map<std::string, const TensorEntry*>& saved) {
  const std::vector<weights::Wanted> own =
      checkpoint::members_of({planned.name, Kind::buffer, planned.type});
  auto found = own.empty() ? saved.end() : saved.find(own.front().name);
  if (found == saved.end() || found->second->dims == own.front().dims) return planned.type;
  const Dims& dims = found->second->dims;
  sharding::ParamType whole = whole_type(parameter);
  const Dims one = checkpoint::members_of({planned.name, Kind::buffer, whole}).front().dims;
  if (dims == one) return whole;
  if (dims.size() != one.size() + 1 || !std::equal(one.begin(), one.end(), dims.begin() + 1)) {
    return planned.type;  // the comparison of all names and dims tells
  }
  whole.dims.insert(whole.dims.begin(), sharding::Dim{.size = dims.front()});
  return whole;
}

}  // namespace

std::vector<Slot> saved_sum_types(const checkpoint::CheckpointIndex& index,
                                  const optim::UpdatePlan& plan) {
  std::unordered_map<std::string, const TensorEntry*> saved;
  for (const TensorEntry& t : index.slots) saved[t.name] = &t;
  const std::vector<optim::SlotSpec>& planned = plan.accumulator();
  std::vector<Slot> out;
  if (saved.count(planned.back().name) == 0) return out;
  for (size_t i = 0; i < planned.size(); ++i) {
    const bool gradient = i < plan.parameters().size();
    out.push_back(
        {planned[i].name, Kind::buffer,
         gradient ? saved_type(planned[i], plan.parameters()[i].type, saved) : planned[i].type});
  }
  return out;
}

std::vector<runtime::Array> planned_sums(std::vector<runtime::Array> loaded,
                                         const optim::UpdatePlan& plan, const sharding::Mesh& mesh,
                                         const runtime::ClientPtr& client) {
  for (size_t i = 0; i < loaded.size(); ++i) {
    const optim::SlotSpec& planned = plan.accumulator()[i];
    runtime::SpecPtr spec = runtime::ArraySpec::sharded(planned.type, mesh, planned.name);
    if (*loaded[i].spec() == *spec) continue;
    const HostTensor parts = loaded[i].get();
    // One part holds all of it.
    HostTensor out(DType::f32, planned.type.sizes());
    const auto size = static_cast<size_t>(element_count(plan.parameters()[i].type.sizes()));
    auto from = parts.data<float>();
    auto to = out.data<float>();
    for (size_t at = 0; at < from.size(); ++at) to[at % size] += from[at];
    loaded[i] = runtime::Array::put(client, spec, {out.bytes(), out.byte_size()});
  }
  return loaded;
}

}  // namespace strata::rl
