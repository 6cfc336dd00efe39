// The scan planner: which layers of a stack run as one loop. Arithmetic on the kinds of the layers,
// nothing else: it neither knows modules nor changes anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/ops/control.h"
#include "strata/sharding/layer_plan.h"

namespace strata::nn {

enum class ScanMode { automatic, off, force };
// "auto", "off", "force". Throws invalid_argument listing them.
ScanMode parse_scan_mode(const std::string& text);

// What each mode does with a model:
//           no stack             no layers           one layer, or no two alike   something repeats
//   off     untouched            carry as it came    as built                     as built
//   auto    untouched            carry as it came    as built, with reasons       runs of >= 2
//   force   failed_precondition  carry as it came    every run stacked, also of length 1
struct ScanOptions {
  ScanMode mode = ScanMode::automatic;
  int64_t param_axis = 0;  // where stacked parameters carry their layer dim
  ops::Remat remat = {};   // what the reverse sweep of a layer keeps
  // Whether equal layers next to each other in a cycle are a loop inside of the loop: less to
  // compile, for a copy of those layers' parameters in each repetition. The parameters are stacked
  // and named as without.
  bool nested = false;
};

// The runs of layers whose kinds are `kinds` (equal numbers: layers alike), in order and without a
// gap: unrolled layers in between, a scanned run wherever a cycle of layers repeats.
//
// Of all such covers it takes the one that traces the fewest layers (a scanned run traces one
// cycle, an unrolled one every layer), among those the one of fewest runs, then the one whose first
// run is longest, then the one of the shorter cycle. So three linear layers and a full one that
// repeat are one run of cycle 4, a layer that only starts the stack is a run before it, and what a
// whole number of cycles leaves over is a run after it. Takes O(n² log n) for n layers.
std::vector<sharding::LayerRun> plan_runs(const std::vector<int64_t>& kinds, ScanMode mode);

// How the cycle of a scanned run falls into groups of equal neighbours: their sizes in order.
std::vector<int64_t> equal_neighbours(const std::vector<int64_t>& kinds,
                                      const sharding::LayerRun& run);

}  // namespace strata::nn
