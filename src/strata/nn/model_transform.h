// Model transforms: what is added to the layers of a model that is built but not yet frozen.
//
// A transform visits the module tree, declares typed fields on the modules it is for and changes
// how these compute. It works before the layers are planned, so that fingerprints, manifests,
// checkpoints and every program see what it added, whether layers run as loops or not; model files
// know nothing of it. It is part of a model's configuration: config.json keeps it under
// kTransformsKey, and whoever builds the model from there applies it again.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/nn/linear.h"
#include "strata/nn/module.h"
#include "strata/sharding/manifest.h"

namespace strata::nn {

// The key of config.json under which a model's transforms stand, a list in order.
inline constexpr const char* kTransformsKey = "strata_transforms";

class ModelTransform {
 public:
  virtual ~ModelTransform() = default;
  // {"kind": …} and what else makes it again; transform_from_json reads it.
  virtual Json to_json() const = 0;
  // Declares its fields below `root`. `ties` are names that the model gives its parameters beside
  // those it declares. Throws, with nothing declared, as find_linears; failed_precondition
  // (nn.frozen) after the model's structure was made; already_exists (nn.transform_twice) when a
  // module has fields of these names.
  virtual void apply(Module& root, const std::vector<sharding::Tie>& ties) const = 0;
};

// Throws data_loss (nn.transform_kind) on an unknown kind, and as the transform's own reading does,
// naming `where`.
std::unique_ptr<ModelTransform> transform_from_json(const Json& json, const std::string& where);

// The linear maps whose path matches one of the globs `targets` (strata::glob_matches:
// "*.self_attn.q_proj"), in order of declaration. Other modules that a glob matches besides are
// left alone. Throws invalid_argument (nn.transform_target) for a glob that matches no linear map:
// with the nearest path of one, or with the reason when it is a module or a tied name that no
// transform can change.
std::vector<Linear*> find_linears(Module& root, const std::vector<std::string>& targets,
                                  const std::vector<sharding::Tie>& ties);

// Throws as ModelTransform::apply unless each map may still get fields of these names.
void check_new_fields(const std::vector<Linear*>& linears, const std::vector<std::string>& fields);

// For reading transforms. Throw data_loss (nn.transform_key) naming `where` and the key.
void check_keys(const Json& json, const std::vector<std::string>& known, const std::string& where);
std::vector<std::string> read_targets(const Json& json, const std::string& where);

}  // namespace strata::nn
