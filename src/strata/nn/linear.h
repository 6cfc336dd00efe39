// Affine maps. Kernels keep the (out, in) order of Hugging Face checkpoints.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/nn/context.h"
#include "strata/nn/module.h"

namespace strata::nn {

// The two dims of a kernel, with the logical names that sharding rules match.
struct LinearDims {
  int64_t in = 0;
  int64_t out = 0;
  std::string in_name = {};
  std::string out_name = {};
};

// x (…, in) times weight (out, in) transposed: (…, out), as ops::linear, whose bits may differ.
// Where x is (B, T, in) of at most 64 rows in all, the weight is the left factor: the CPU plug-ins
// then take a third less time for 8 to 64 rows (and the same for one).
ir::Value project(ir::Value x, ir::Value weight);

// What a model transform makes of one linear map: fields that it declares there, and a change of
// how the map computes.
class LinearPart {
 public:
  virtual ~LinearPart() = default;
  // As Module::describe.
  virtual std::string describe() const = 0;
  // The kernel that stands in for `weight`, both (out, in) in the type to compute in.
  virtual ir::Value kernel(const Context& context, ir::Value weight) const;
  // What is added to x Wᵀ; null = nothing.
  virtual ir::Value added(const Context& context, ir::Value x) const;
  // The kernel (out, in) f32 of `added`: added(x) = x · added_kernelᵀ. Null where that is.
  virtual ir::Value added_kernel(const Context& context) const;
  virtual std::vector<InitialValue> initial_values(const Context& context, ir::Value weight) const;
};

// y = x Wᵀ + b over the last dim.
class Linear : public Module {
 public:
  Linear(Module* parent, std::string name, const LinearDims& dims, bool bias);
  ir::Value operator()(const Context& context, ir::Value x) const;
  // The kernel (out, in) of the whole map, whatever model transforms made of it, in the type of its
  // weight's value: for those who multiply with it themselves, as a head's loss does.
  ir::Value kernel(const Context& context) const;
  LinearDims dims() const;
  // "Linear", and the description of each part.
  std::string describe() const override;
  std::vector<InitialValue> initial_values(const Context& context) const override;

  // For model transforms: adds a part, which has declared its fields here.
  void add(std::unique_ptr<LinearPart> part) { parts_.push_back(std::move(part)); }
  const std::vector<std::unique_ptr<LinearPart>>& parts() const { return parts_; }

 private:
  ir::Value own_kernel(const Context& context, DType compute) const;

  Param weight_;
  std::optional<Param> bias_;
  std::vector<std::unique_ptr<LinearPart>> parts_;
};

// A table of rows (vocabulary, embed) looked up by token id; ids outside are clamped.
class Embedding : public Module {
 public:
  Embedding(Module* parent, std::string name, int64_t vocabulary, int64_t size);
  // ids (…) i32 → (…, size).
  ir::Value operator()(const Context& context, ir::Value ids) const;
  const Param& weight() const { return weight_; }
  std::string describe() const override;

 private:
  Param weight_;
};

}  // namespace strata::nn
