#include "strata/optim/zero.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/sharding/box.h"

namespace strata::optim {
namespace {

using sharding::Dim;
using sharding::Mesh;
using sharding::ParamType;

bool uses(const ParamType& type, const std::string& axis) {
  return std::any_of(type.dims.begin(), type.dims.end(), [&](const Dim& d) {
    return std::find(d.axes.begin(), d.axes.end(), axis) != d.axes.end();
  });
}

// The dim that `axis` goes to; -1 when none divides.
int64_t choose(const ParamType& type, const std::string& axis, const Mesh& mesh, SplitFirst first) {
  const std::vector<int64_t> array = array_dims(type);
  const int64_t parts = mesh.axis_size(axis);
  int64_t best = -1, best_size = 0;
  bool best_comes_first = false;
  for (int64_t i = 0; i < type.rank(); ++i) {
    const Dim& dim = type.dims[static_cast<size_t>(i)];
    const int64_t size = dim.size / mesh.axes_size(dim.axes);
    if (size == 0 || size % parts != 0) continue;
    const bool inside = std::find(array.begin(), array.end(), i) != array.end();
    const bool comes_first = inside == (first == SplitFirst::array);
    const bool better = comes_first != best_comes_first ? comes_first : size > best_size;
    if (best >= 0 && !better) continue;
    best = i;
    best_size = size;
    best_comes_first = comes_first;
  }
  return best;
}

void check_axes(const std::vector<std::string>& axes, const Mesh& mesh) {
  std::set<std::string> seen;
  for (const std::string& axis : axes) {
    mesh.axis_size(axis, "ZeRO");
    require(seen.insert(axis).second, {.id = "optim.zero_axes",
                                       .where = "ZeRO",
                                       .expected = "each mesh axis once",
                                       .got = join(axes, ", ")});
  }
}

}  // namespace

std::vector<std::string> zero_axes(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const char* axis : {"data", "fsdp"}) {
    if (mesh.has(axis)) axes.push_back(axis);
  }
  return axes;
}

SplitSlots split_slots(std::vector<SlotSpec> slots, const std::vector<std::string>& axes,
                       const Mesh& mesh, SplitFirst first) {
  check_axes(axes, mesh);
  SplitSlots out = {.slots = std::move(slots)};
  for (SlotSpec& slot : out.slots) {
    sharding::check_layout(slot.type, mesh, slot.name);
    if (slot.parameter < 0 || slot.type.rank() == 0) continue;
    const std::string before = sharding::text_of(slot.type);
    for (const std::string& axis : axes) {
      const int64_t parts = mesh.axis_size(axis);
      if (parts == 1 || uses(slot.type, axis)) continue;
      const int64_t dim = choose(slot.type, axis, mesh, first);
      if (dim >= 0) {
        slot.type.dims[static_cast<size_t>(dim)].axes.push_back(axis);
        continue;
      }
      out.reasons.push_back(
          fmt::format("{}, {}: no dim is divisible by {} ({}); replicated over it", slot.name,
                      before, axis, parts));
    }
  }
  return out;
}

ZeroPlan zero1(const UpdatePlan& plan, const std::vector<std::string>& axes, const Mesh& mesh) {
  SplitFirst first = plan.optimizer().couples_elements() ? SplitFirst::layers : SplitFirst::array;
  SplitSlots slots = split_slots(plan.slots(), axes, mesh, first);
  SplitSlots sums = split_slots(plan.accumulator(), axes, mesh, first);
  return {plan.with_layout(std::move(slots.slots), std::move(sums.slots)),
          std::move(slots.reasons)};
}

}  // namespace strata::optim
