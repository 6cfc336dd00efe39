// Structural fingerprints: what two layers must have in common to run as one loop body.
#pragma once

#include <string>
#include <typeinfo>
#include <vector>

#include "strata/nn/module.h"
#include "strata/nn/sharing.h"

namespace strata::nn {

// One line of a fingerprint: a module with its class and configuration, a parameter or buffer with
// its type and what it is a second name of, or a tap, under its name inside the layer
// ("mlp.gate.weight").
struct Trait {
  std::string key;
  std::string text;
  const std::type_info* type = nullptr;  // of a module
  bool per_layer_buffer = false;

  bool operator==(const Trait& other) const;
};

using Fingerprint = std::vector<Trait>;

// Everything below `layer` in order of declaration. Equal fingerprints mean the layers compute the
// same function of equally named parameters.
Fingerprint fingerprint(const Module& layer, const Sharing& sharing);

// The first trait in which two layers differ, as a sentence: "layers.3 and layers.4 differ:
// mlp.gate exists only in layers.4". Empty when the fingerprints are equal.
std::string first_difference(const Module& a, const Fingerprint& of_a, const Module& b,
                             const Fingerprint& of_b);

}  // namespace strata::nn
