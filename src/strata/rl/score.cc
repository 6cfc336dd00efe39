#include "strata/rl/score.h"

#include "strata/nn/context.h"
#include "strata/nn/token_loss.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
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

// Log-probability of each next token, (rows · (tokens − 1)).
Value next_token_logprobs(Value hidden, Value head, Value ids) {
  int64_t rows = ids.dim(0), tokens = ids.dim(1);
  Value before = ops::slice_axis(hidden, 1, 0, tokens - 1);
  Value labels = ops::slice_axis(ids, 1, 1, tokens);
  return nn::token_scores(ops::reshape(before, {rows * (tokens - 1), hidden.dim(2)}), head,
                          ops::reshape(labels, {rows * (tokens - 1)}), {})
      .logprobs;
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
  Values masters, weights;
  for (const sharding::Slot& s : structure.manifest().slots()) {
    sharding::ParamType master = s.type;
    master.dtype = DType::f32;
    masters.push_back(f.declare(master, s.name));
    weights.push_back(ops::convert(masters.back(), o.compute));
  }
  Value ids = f.declare(score_input_type(structure.placement(), o).type, "input_ids");
  nn::Context context(f, structure, weights);
  models::LmInput input;
  input.ids = ids;
  input.positions = ops::iota(f, DType::i32, ids.dims(), 1);
  input.segments = ops::full(f, DType::i32, ids.dims(), 1);
  Value hidden = model.forward(context, input).hidden;
  Value head = model.head(context);
  Value logprobs = next_token_logprobs(hidden, head, ids);
  Value loss = -ops::reduce_mean(logprobs, {0});
  Values results{ops::convert(ops::linear(hidden, head), DType::f32),
                 ops::reshape(logprobs, {o.rows, o.tokens - 1}), loss};
  std::vector<ir::Port> ports{{"logits", ""}, {"token_logprobs", ""}, {"loss", ""}};
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
