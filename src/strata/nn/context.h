// Context: what a module sees while it is traced: the function, the values of the parameters that
// it declares, random keys, and where taps go.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>

#include "strata/ir/ir.h"
#include "strata/nn/module.h"
#include "strata/nn/structure.h"
#include "strata/nn/taps.h"
#include "strata/ops/shared_stack.h"

namespace strata::nn {

// Where random keys come from: a root key (u32[2], as ops::key makes of a seed) and the number of
// the step (a rank-0 integer).
struct Randomness {
  ir::Value key;
  ir::Value step;
};

// What lay_out knows of the mesh; internal to Context.
struct MeshView;

// Cheap to copy. Valid while function and structure live.
class Context {
 public:
  // `slots[i]` is the value of the structure's slot i: of its type but for the element type, which
  // is the one to compute in. Throws invalid_argument naming the first slot that does not fit.
  Context(ir::Function& function, const Structure& structure, const ir::Values& slots);

  ir::Function& function() const { return *function_; }
  const Structure& structure() const { return *structure_; }

  // The same context whose values are laid out over the structure's mesh as lay_out says, and whose
  // parameters are brought together, where they are used, along the axes that the batch is split
  // on. `manual` are mesh axes of which the traced code sees one part (ops::on_parts).
  // Without a mesh it is this context.
  Context over_mesh(std::vector<std::string> manual = {}) const;
  // `x`, whose dims lie on the mesh as the structure's rules say of these logical names, one a dim
  // (dims without a name, without a rule, or that do not divide are on every device). A model
  // says here how its activations are split; the partitioner chooses only what lies between.
  ir::Value lay_out(ir::Value x, const std::vector<std::string>& names) const;
  // How the devices share out the layers of the stack that `param` is in: parts, where its layer
  // dim lies on the mesh.
  ops::StackParts stack_parts(const Param& param) const;

  // The value of a parameter, under whichever of its names. Inside of a layer throws
  // failed_precondition for one that the layer does not declare: what a layer reads is part of its
  // signature, or loops could not know what to hand it.
  ir::Value operator()(const Param& param) const;

  // The same context with random keys: modules that draw (dropout) do so only then.
  Context with_random(const Randomness& random) const;
  bool is_random() const { return static_cast<bool>(random_.key); }
  // A key of its own for each stream (a purpose: "dropout"), module, layer and step, and the same
  // in each evaluation: of the root key, fold_in in turn the first 32 bits (big endian) of the
  // SHA-256 of `stream` and of common_path(module), the number of the layer (of each stack that the
  // module lies in), and the step. Throws failed_precondition without with_random.
  ir::Value key(std::string_view stream, const Module& module) const;

  // The same context whose taps go to `sink`, which must outlive it.
  Context with_taps(TapSink& sink) const;
  TapSink* sink() const { return sink_; }
  // Emits `value` as `tap`; returns it for further use (that is what remat by name keeps). Throws
  // failed_precondition when the tap has been emitted in this call already, or is wanted as an
  // output and was traced inside of a loop or call of the module itself.
  ir::Value tap(const Tap& tap, ir::Value value) const;

 private:
  friend class LayerScope;
  using Bindings = std::unordered_map<const Param*, ir::Value>;

  ir::Value gathered(const Param& param, ir::Value value) const;

  ir::Function* function_;
  const Structure* structure_;
  std::shared_ptr<const Bindings> values_;
  std::shared_ptr<const MeshView> mesh_ = {};  // null: lay_out does nothing
  Randomness random_ = {};
  ir::Values layers_ = {};         // number of the layer in each stack around, outermost first
  const Module* layer_ = nullptr;  // innermost layer
  TapSink* sink_ = nullptr;
  std::map<const Tap*, ir::Value>* emitted_ = nullptr;  // by the innermost layer
  const ir::Region* region_ = nullptr;                  // in which that layer is traced
};

// One traced call of a layer: the context in which it finds its own parameters and those it shares,
// and what it emits.
class LayerScope {
 public:
  // The values of Structure::own_params(layer), or none at all to use those bound in `outer`.
  // `index` is the layer's number in its stack.
  LayerScope(const Context& outer, const Module& layer, ir::Value index, const ir::Values& values);
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

  const Context& context() const { return context_; }
  // The wanted taps in order of declaration, with what was emitted. Throws failed_precondition when
  // the layer's call emitted less than it declares.
  std::vector<std::pair<const Tap*, ir::Value>> taps() const;

 private:
  const Module& layer_;
  Context context_;
  std::map<const Tap*, ir::Value> emitted_;
};

}  // namespace strata::nn
