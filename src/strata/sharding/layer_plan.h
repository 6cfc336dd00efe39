// LayerPlan: how the layers of one stack run, as data. A plan is a list of runs that cover layers
// 0 … count-1 in order. A run is a cycle of C layers (its "slots") times R repeats; it is either
// scanned (its parameters are stacked over the repeats) or unrolled (every layer keeps its own).
// A dense prefix, a cyclic middle and a trailing remainder are runs like any other.
//
// Stacked parameters are named after the layers they hold: slot s of a scanned run holds layers
// first+s, first+s+C, …, so "model.layers[3:27:4].mlp.up_proj.weight" stacks layers 3, 7, …, 23
// (end is exclusive, as in a slice). On disk the names are always the unstacked ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::sharding {

struct LayerRun {
  int64_t first = 0;    // index of its first layer
  int64_t cycle = 1;    // layers in one repetition, >= 1
  int64_t repeats = 0;  // >= 1
  bool scanned = false;

  int64_t layers() const { return cycle * repeats; }
  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

// Where a layer stands: runs[run], repetition `repeat`, position `slot` inside the cycle.
struct LayerPlace {
  int64_t run = 0;
  int64_t repeat = 0;
  int64_t slot = 0;

  friend bool operator==(const LayerPlace&, const LayerPlace&) = default;
};

struct LayerPlan {
  std::string stack = {};  // path of the stack: "model.layers"
  std::vector<LayerRun> runs = {};

  // Number of layers.
  int64_t count() const;
  // Throws out_of_range naming the stack.
  LayerPlace place(int64_t layer) const;
  // Inverse of place.
  int64_t layer_at(const LayerPlace& place) const;
  // Name of the stacked parameter `leaf` ("mlp.up_proj.weight") of slot `slot` in runs[run].
  std::string stacked_name(int64_t run, int64_t slot, std::string_view leaf) const;
  // Name of parameter `leaf` of one layer: "model.layers.3.mlp.up_proj.weight".
  std::string layer_name(int64_t layer, std::string_view leaf) const;
  // "model.layers: 0-2 unrolled, 3-26 scanned 4 x 6".
  std::string text() const;

  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

// Throws invalid_argument naming the stack unless the runs are non-empty, adjacent and start at 0.
void check_plan(const LayerPlan& plan);

// The parts of a stacked name.
struct StackedName {
  std::string stack;  // "model.layers"
  int64_t begin = 0;
  int64_t end = 0;  // exclusive
  int64_t step = 1;
  std::string leaf;  // "mlp.up_proj.weight"

  // The unstacked names, in the order of the layer dim.
  std::vector<std::string> layer_names() const;
};

// The parts of "stack[begin:end:step].leaf"; empty for any name that is not of this form.
std::optional<StackedName> parse_stacked_name(std::string_view name);

}  // namespace strata::sharding
