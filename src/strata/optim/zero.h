// ZeRO-1 as a policy on types: the optimiser's state (and the summed gradients that feed it) is
// split over mesh axes along which the parameters are replicated. Arithmetic only; no formula knows
// of it. Source: arXiv 1910.02054, stage 1.
#pragma once

#include <string>
#include <vector>

#include "strata/optim/update.h"
#include "strata/sharding/mesh.h"

namespace strata::optim {

// Which dims of a slot are looked at first: those of a layer's array, or layers and experts. With
// `layers`, the update of a layer happens on one device wherever the layers divide: what an
// optimiser needs that couples the elements of an array.
enum class SplitFirst { array, layers };

struct SplitSlots {
  std::vector<SlotSpec> slots;
  // "adam.m/norm.weight, f32[7]: no dim is divisible by data (2); replicated over it".
  std::vector<std::string> reasons;
};

// The mesh axes that ZeRO uses by default: "data" and "fsdp", as far as `mesh` has them.
std::vector<std::string> zero_axes(const sharding::Mesh& mesh);

// Appends each axis of `axes` that a slot does not use yet, and whose size is not 1, to one of the
// slot's dims that it divides: of those that come first, the one with the most elements a device,
// of equal ones the first. What a parameter has none for stays as it is, with a reason; slots of
// the whole run (parameter -1) and of rank 0 stay without. Slots of equal types get equal types,
// so gradients (accumulator_slots) and moments of a parameter match. Throws invalid_argument:
// optim.zero_axes (an axis twice), and as check_layout; not_found for an axis that `mesh` lacks.
SplitSlots split_slots(std::vector<SlotSpec> slots, const std::vector<std::string>& axes,
                       const sharding::Mesh& mesh, SplitFirst first = SplitFirst::array);

// A plan whose slots and summed gradients are split over `axes`, layers first where the optimiser
// couples the elements of an array, and why slots are not. Throws as split_slots.
struct ZeroPlan {
  UpdatePlan plan;
  std::vector<std::string> reasons;
};
ZeroPlan zero1(const UpdatePlan& plan, const std::vector<std::string>& axes,
               const sharding::Mesh& mesh);

}  // namespace strata::optim
