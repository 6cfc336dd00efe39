// Placement: a model's manifest laid over a mesh. Building a model knows no mesh; placing it is a
// later, explicit call, and whatever has a layout (parameters, gradients, optimiser slots, batches,
// files) derives it from this one record.
#pragma once

#include <string>
#include <vector>

#include "strata/sharding/partition_spec.h"
#include "strata/sharding/resolver.h"

namespace strata::sharding {

struct PlacementOptions {
  Mesh mesh = {};
  // In place of, or beside, the family's rules: a rule of the same name replaces theirs.
  std::vector<Rule> rules = {};
  // Replication that a rule did not ask for is an error.
  bool strict = false;
  // What parameters of a name get whatever the rules say, the first that matches. Dims of which a
  // spec says nothing are on every device; stack dims are the rules'.
  std::vector<SpecRule> specs = {};
};

struct Placement {
  Mesh mesh = {};
  std::vector<Rule> rules = {};
  Manifest manifest = {};  // the slots with their mesh axes
  // Why a dim did not get what its rule asked for, a line each.
  std::vector<std::string> reasons = {};
  bool strict = false;

  bool partitioned() const { return mesh.size() > 1; }
};

// `family` is the model's own rules; of their candidates those stay whose axes `mesh` has (a model
// knows all axes that exist, a mesh only some). The given rules must speak of its axes. Throws as
// resolve and with_spec; not_found (sharding.spec_unmatched) for a spec that no parameter has;
// invalid_argument (sharding.axis_without_rule) for a mesh axis that no rule or spec names.
Placement place(const Manifest& manifest, const PlacementOptions& options,
                const std::vector<Rule>& family);

// Another array of the same run, such as a batch's ids ("batch" × "tokens"): unnamed dims and names
// without a rule are replicated. A reason is added to `reasons` unless it is there already.
ParamType place_array(const Placement& placement, const ParamType& type, const std::string& path,
                      std::vector<std::string>& reasons);

// Rules for decoder models: embed → fsdp; vocab, mlp, heads, kv_heads → tensor; layers → layers;
// batch → data and fsdp together, or one of them; head_dim is replicated.
std::vector<Rule> decoder_rules();

}  // namespace strata::sharding
