// Second names of tied parameters in files: a model file may hold a tied parameter under both.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strata/sharding/manifest.h"
#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {

// Alias and owner of every tie, by their unstacked names.
std::vector<std::pair<std::string, std::string>> tied_names(const sharding::Manifest& model);

// `ignorable` and the aliases: what a file may hold beside the model's tensors.
std::vector<std::string> with_aliases(std::vector<std::string> ignorable,
                                      const sharding::Manifest& model);

// Where the source holds a parameter under both names, the two have the same bits. Throws
// invalid_argument (checkpoint.tied) naming both otherwise. Mapped pages are dropped again.
void check_tied(const weights::TensorSource& source, const sharding::Manifest& model);

}  // namespace strata::checkpoint
