// Keys of config.json that belong to other architectures. A converter or a fork may leave them in a
// file whose model_type is a known one; ignoring them would compute something else in silence.
#pragma once

#include "strata/models/causal_lm.h"
#include "strata/models/config_reader.h"

namespace strata::models {

// Throws unimplemented for a key that changes what is computed, unless its value says "off" (null,
// false, empty, or the value at which it does nothing).
void refuse_foreign_keys(const ConfigReader& config);

// Throws unimplemented when a layer attends to less than the model's whole context.
void refuse_sliding_layers(const ConfigReader& config, const LmConfig& lm);

}  // namespace strata::models
