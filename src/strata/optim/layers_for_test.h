// For tests of optimisers that couple the elements of a layer's array: the formulas of one array
// in double with state stored in float32, and the places of its elements in stacked tensors.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "strata/optim/adafactor.h"
#include "strata/optim/muon.h"

namespace strata::optim {

using Doubles = std::vector<double>;

inline double stored_f32(double x) { return static_cast<float>(x); }

// One layer's array under training: its parameter and slots by role.
struct Layer {
  Dims dims;
  Doubles p;
  std::map<std::string, Doubles> slots;
};

// Advances a layer by one step: gradient, rate, decay, t from 1.
using LayerRule = std::function<void(Layer&, const Doubles& g, double lr, double wd, double t)>;

LayerRule adafactor_layer(const AdafactorConfig& config);
// A matrix of `muon` and what `rest` is given.
LayerRule muon_layer(const MuonConfig& config);
LayerRule adamw_layer(const AdamWConfig& config);

// Of each element of a tensor of this type: which layer (batch index, row-major) it belongs to, and
// where it lies in that layer's array.
struct Place {
  size_t layer, element;
};
std::vector<Place> places_of(const sharding::ParamType& type);
// Number of layers, and the dims of one's array.
size_t layer_count(const sharding::ParamType& type);
Dims layer_dims(const sharding::ParamType& type);

}  // namespace strata::optim
