#include "strata/rl/score.h"

#include "strata/nn/context.h"
#include "strata/nn/token_loss.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/rl/train_programs.h"
#include "strata/transform/vjp.h"

namespace strata::rl {
namespace {

using ir::Value;
using ir::Values;

void check(const models::CausalLm& model, const ScoreOptions& o) {
  require(o.tokens >= 2 && o.rows >= 1,
          {.id = "rl.score_shape",
           .where = "score",
           .expected = "at least one row of two tokens",
           .got = std::to_string(o.rows) + " rows of " + std::to_string(o.tokens)});
  require(o.tokens <= model.config().max_positions,
          {.id = "rl.score_context",
           .where = "score",
           .expected = "at most " + std::to_string(model.config().max_positions) +
                       " tokens, the model's context",
           .got = std::to_string(o.tokens),
           .code = Code::out_of_range});
}

// The logits lie as they are computed.
std::vector<std::vector<std::string>> logits_axes(const sharding::Placement& placement,
                                                  Value logits) {
  sharding::ParamType type = sharding::plain_type(logits.dtype(), logits.dims());
  type.dims[0].name = "batch";
  type.dims[2].name = "vocab";
  std::vector<std::string> reasons;
  return ir::axes_of(place_array(placement, type, "logits", reasons));
}

// Log-probability of each next token, (rows, tokens − 1). The rows are in `groups` equal parts that
// devices share out.
Value next_token_logprobs(const nn::Context& context, Value hidden, Value head, Value ids,
                          int64_t groups) {
  int64_t rows = ids.dim(0), tokens = ids.dim(1), scored = rows / groups * (tokens - 1);
  Value before = ops::slice_axis(hidden, 1, 0, tokens - 1);
  Value labels = ops::slice_axis(ids, 1, 1, tokens);
  Dims states{scored, hidden.dim(2)}, words{scored};
  if (groups > 1) {
    states.insert(states.begin(), groups);
    words.insert(words.begin(), groups);
  }
  before = ops::reshape(before, states);
  if (groups > 1) before = context.lay_out(before, {"batch", "", ""});
  Value logprobs =
      nn::token_scores(before, head, ops::reshape(labels, words), {.context = &context}).logprobs;
  return ops::reshape(logprobs, {rows, tokens - 1});
}

}  // namespace

sharding::Resolved score_input_type(const sharding::Placement& placement, const ScoreOptions& o) {
  sharding::Resolved out;
  sharding::ParamType ids{DType::i32, {{.size = o.rows, .name = "batch"}, {.size = o.tokens}}};
  out.type = place_array(placement, ids, "input_ids", out.reasons);
  return out;
}

std::unique_ptr<ir::Function> score_function(const models::CausalLm& model,
                                             const nn::Structure& structure,
                                             const ScoreOptions& o) {
  check(model, o);
  auto function = std::make_unique<ir::Function>("score");
  ir::Function& f = *function;
  f.set_mesh(structure.mesh());
  Values masters = declare_masters(f, structure);
  sharding::ParamType in = score_input_type(structure.placement(), o).type;
  Value ids = f.declare(in, "input_ids");
  nn::Context context =
      nn::Context(f, structure, weights_of(structure, masters, o.compute)).over_mesh();
  models::LmInput input;
  input.ids = ids;
  input.positions = ops::iota(f, DType::i32, ids.dims(), 1);
  input.segments = ops::full(f, DType::i32, ids.dims(), 1);
  Value hidden = model.forward(context, input).hidden;
  Value head = model.head(context);
  Value logprobs =
      next_token_logprobs(context, hidden, head, ids, structure.mesh().axes_size(in.dims[0].axes));
  Value loss = -ops::reduce_mean(logprobs, {0, 1});
  Value logits = ops::convert(ops::linear(hidden, head), DType::f32);
  Values results{context.lay_out(logits, {"batch", "", "vocab"}), logprobs, loss};
  std::vector<ir::Port> ports{{"logits", "", logits_axes(structure.placement(), logits)},
                              {"token_logprobs", "", ir::axes_of(in)},
                              {"loss", ""}};
  if (o.gradients) {
    Values g = transform::gradient(loss, masters);
    results.insert(results.end(), g.begin(), g.end());
    for (const sharding::Slot& s : structure.manifest().slots()) {
      ports.push_back({"grad." + s.name, "", ir::axes_of(s.type)});
    }
  }
  f.set_results(results, ports);
  return function;
}

}  // namespace strata::rl
