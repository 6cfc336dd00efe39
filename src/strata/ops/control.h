// Ops with bodies: scan, while, if, and call (a body that is inlined, whose gradient obeys a remat
// policy). Bodies are ordinary tracing code; what they use from outside is captured and becomes a
// loop-invariant operand. Gradients live in room transform.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/ops/shared_stack.h"

namespace strata::ops {

extern const ir::OpDef kCall, kIf, kScan, kWhile;

// What the reverse sweep may keep of a body's forward values.
//   none   every value the sweep needs is saved; nothing is computed twice
//   dots   products (and other region ops) are saved; elementwise work is computed again
//   full   only the body's inputs are saved; everything is computed again
//   names  only values tagged with one of `names` are saved
//   offload  the same, and they wait in host memory (on plug-ins that have one)
struct Remat {
  enum class Policy { none, dots, full, names, offload };
  Policy policy = Policy::none;
  std::vector<std::string> names = {};
};

// "none", "dots", "full", "names:a,b" or "offload:a,b". Throws invalid_argument listing the valid
// forms.
Remat parse_remat(const std::string& text);
std::string text_of(const Remat& remat);

struct ScanOptions {
  int64_t length = 0;    // number of steps; 0 returns the carry and empty outputs
  bool reverse = false;  // steps run length-1 … 0
  Dims x_axes = {};      // stack axis of each per-step input; empty = 0 for all
  Dims y_axes = {};      // stack axis of each per-step output; empty = 0 for all
  // How devices share out the stack of each per-step input and output; what is missing is one part.
  // The gradient of an input is shared out as the input.
  std::vector<StackParts> x_parts = {}, y_parts = {};
  Remat remat = {};
};

struct Step {
  ir::Values carry;
  ir::Values ys;
};

// Called once, while tracing. `index` is the step's number (rank-0 i32); `xs` are the inputs
// without their stack axis.
using ScanBody =
    std::function<Step(ir::Value index, const ir::Values& carry, const ir::Values& xs)>;

// Runs `body` over the steps: the carry goes from step to step, ys are stacked. Loop-invariant
// values are inputs of the loop and never outputs. Throws invalid_argument when a carry changes its
// type or an input's stack axis has another size than `length`.
Step scan(ir::Function& function, const ir::Values& carry, const ir::Values& xs,
          const ScanOptions& options, const ScanBody& body);

using Body = std::function<ir::Values(const ir::Values&)>;

// body(inputs), differentiated under `remat`: outside of gradients it is as if written inline.
ir::Values call(ir::Function& function, const ir::Values& inputs, const Remat& remat,
                const Body& body);

// pred ? then() : otherwise(), of which only one runs. `pred` is a rank-0 predicate; both return
// the same types.
ir::Values if_(ir::Value pred, const std::function<ir::Values()>& then,
               const std::function<ir::Values()>& otherwise);

// Repeats `body` while `condition` (a rank-0 predicate) holds. Differentiating it throws
// Unimplemented: the number of steps is not known in advance.
ir::Values while_loop(ir::Function& function, const ir::Values& carry,
                      const std::function<ir::Value(const ir::Values&)>& condition,
                      const Body& body);

// How a scan node's operands, results and body parameters are laid out: operands are carries, xs,
// constants; results are carries, ys; body parameters are index, carries, x slices, constants.
struct ScanLayout {
  explicit ScanLayout(const ir::Node& node);
  int64_t length;
  bool reverse;
  size_t carries, xs, constants, ys;
  Dims x_axes, y_axes;
  std::vector<StackParts> x_parts, y_parts;  // one each
};

// The policy stored on a scan or call node.
Remat remat_of(const ir::Node& node);

// A scan node from parts; the body's parameters are laid out as ScanLayout says.
ir::Node& scan_node(ir::Function& function, ir::Values operands, size_t carries, size_t xs,
                    const ScanOptions& options, std::unique_ptr<ir::Region> body);

// `type` with a dim of `length` inserted at `axis` (clamped to the rank).
ir::Type stacked(const ir::Type& type, int64_t length, int64_t axis);

}  // namespace strata::ops
