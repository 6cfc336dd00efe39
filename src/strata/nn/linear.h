// Affine maps. Kernels keep the (out, in) order of Hugging Face checkpoints.
#pragma once

#include <optional>
#include <string>

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

// y = x Wᵀ + b over the last dim.
class Linear : public Module {
 public:
  Linear(Module* parent, std::string name, const LinearDims& dims, bool bias);
  ir::Value operator()(const Context& context, ir::Value x) const;
  const Param& weight() const { return weight_; }
  std::string describe() const override;

 private:
  Param weight_;
  std::optional<Param> bias_;
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
