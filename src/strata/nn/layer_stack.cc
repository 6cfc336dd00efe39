#include "strata/nn/layer_stack.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/nn/fingerprint.h"
#include "strata/ops/control.h"
#include "strata/ops/misc.h"
#include "strata/ops/shape.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::LayerRun;

// Layers first, first + cycle, … of a stacked input.
Value share_of(const Value& stacked, const LayerRun& run, int64_t slot) {
  int64_t end = run.first + run.layers();
  if (run.cycle == 1) return ops::slice_axis(stacked, 0, run.first, end);
  Dims start(stacked.dims().size(), 0), limit = stacked.dims(), strides(stacked.dims().size(), 1);
  start[0] = run.first + slot;
  limit[0] = end;
  strides[0] = run.cycle;
  return ops::slice(stacked, start, limit, strides);
}

// Per-slot outputs (repeats, …) interleaved to layer order (cycle · repeats, …).
Value interleave(const Values& slots) {
  if (slots.size() == 1) return slots[0];
  Values parts;
  for (const Value& s : slots) {
    Dims dims = s.dims();
    dims.insert(dims.begin() + 1, 1);
    parts.push_back(ops::reshape(s, dims));
  }
  Value joined = ops::concatenate(parts, 1);
  Dims dims = slots[0].dims();
  dims[0] *= static_cast<int64_t>(slots.size());
  return ops::reshape(joined, dims);
}

// Traces the runs of one call of a stack.
class Runner {
 public:
  Runner(const LayerStack& stack, const Context& context, Values carry, const Values& inputs,
         const TokenContext& tokens)
      : stack_(stack),
        context_(context),
        carry_(std::move(carry)),
        inputs_(inputs),
        tokens_(tokens) {}

  void run(const LayerRun& r) {
    if (r.scanned) {
      scanned(r);
    } else {
      for (int64_t i = r.first; i < r.first + r.layers(); ++i) unrolled(i);
    }
  }

  LayerResult result() {
    LayerResult out{carry_, {}};
    for (const Values& parts : outputs_) out.outputs.push_back(ops::concatenate(parts, 0));
    return out;
  }

 private:
  const ops::Remat& remat() const { return context_.structure().options().remat; }

  void collect(const Values& outputs) {
    if (outputs_.empty()) outputs_.resize(outputs.size());
    require(outputs_.size() == outputs.size(),
            {.id = "nn.layer_outputs",
             .where = stack_.path(),
             .expected = std::to_string(outputs_.size()) + " outputs from each layer",
             .got = std::to_string(outputs.size())});
    for (size_t i = 0; i < outputs.size(); ++i) outputs_[i].push_back(outputs[i]);
  }

  void unrolled(int64_t index) {
    const Layer& layer = stack_.layer(static_cast<size_t>(index));
    ir::NameScope name(context_.function(), layer.path());
    Values in = carry_;
    for (const Value& v : inputs_) in.push_back(ops::select_index(v, 0, index));
    size_t outputs = 0;
    Values out = ops::call(context_.function(), in, remat(), [&](const Values& v) {
      Values carry(v.begin(), v.begin() + static_cast<ptrdiff_t>(carry_.size()));
      Values mine(v.begin() + static_cast<ptrdiff_t>(carry_.size()), v.end());
      LayerResult r = layer.forward(context_, carry, mine, tokens_);
      outputs = r.outputs.size();
      Values all = r.carry;
      all.insert(all.end(), r.outputs.begin(), r.outputs.end());
      return all;
    });
    auto split = out.end() - static_cast<ptrdiff_t>(outputs);
    carry_.assign(out.begin(), split);
    Values stacked;
    for (auto it = split; it != out.end(); ++it) {
      Dims dims = it->dims();
      dims.insert(dims.begin(), 1);
      stacked.push_back(ops::reshape(*it, dims));
    }
    collect(stacked);
  }

  void scanned(const LayerRun& r) {
    ir::NameScope name(context_.function(), stack_.path());
    ops::ScanOptions options;
    options.length = r.repeats;
    options.remat = remat();
    Values xs;
    std::vector<const Param*> params;
    for (int64_t slot = 0; slot < r.cycle; ++slot) {
      for (const Param* p : stack_.layer(static_cast<size_t>(r.first + slot)).all_params()) {
        params.push_back(p);
        xs.push_back(context_(*p));
        options.x_axes.push_back(sharding::normalised_stack_axis(
            context_.structure().options().param_axis, p->type().rank(), p->path()));
      }
      for (const Value& v : inputs_) {
        xs.push_back(share_of(v, r, slot));
        options.x_axes.push_back(0);
      }
    }
    size_t outputs = 0;
    ops::Step step = ops::scan(context_.function(), carry_, xs, options,
                               [&](Value, const Values& carry, const Values& slices) {
                                 ops::Step out = body(r, carry, slices);
                                 outputs = out.ys.size() / static_cast<size_t>(r.cycle);
                                 return out;
                               });
    carry_ = step.carry;
    Values merged;
    for (size_t i = 0; i < outputs; ++i) {
      Values slots;
      for (int64_t s = 0; s < r.cycle; ++s) {
        slots.push_back(step.ys[static_cast<size_t>(s) * outputs + i]);
      }
      merged.push_back(interleave(slots));
    }
    collect(merged);
  }

  // One repetition: the layers of the cycle, one after the other.
  ops::Step body(const LayerRun& r, Values carry, const Values& slices) {
    ops::Step out;
    size_t at = 0;
    for (int64_t slot = 0; slot < r.cycle; ++slot) {
      const Layer& layer = stack_.layer(static_cast<size_t>(r.first + slot));
      std::vector<const Param*> params = layer.all_params();
      auto take = [&](size_t n) {
        Values v(slices.begin() + static_cast<ptrdiff_t>(at),
                 slices.begin() + static_cast<ptrdiff_t>(at + n));
        at += n;
        return v;
      };
      Context here = context_.with(params, take(params.size()));
      LayerResult result = layer.forward(here, carry, take(inputs_.size()), tokens_);
      carry = result.carry;
      out.ys.insert(out.ys.end(), result.outputs.begin(), result.outputs.end());
    }
    out.carry = carry;
    return out;
  }

  const LayerStack& stack_;
  const Context& context_;
  Values carry_;
  const Values& inputs_;
  const TokenContext& tokens_;
  std::vector<Values> outputs_;  // [output][run or layer]
};

}  // namespace

std::string LayerStack::describe() const {
  return "LayerStack(" + std::to_string(layers_.size()) + ")";
}

LayerResult LayerStack::run(const Context& context, const Values& carry, const Values& inputs,
                            const TokenContext& tokens) const {
  if (layers_.empty()) return {carry, {}};
  auto count = static_cast<int64_t>(layers_.size());
  for (const Value& v : inputs) {
    require(v.rank() > 0 && v.dim(0) == count,
            {.id = "nn.per_layer_input",
             .where = path(),
             .expected = "per-layer inputs with " + std::to_string(count) + " layers on dim 0",
             .got = ir::text(v.type())});
  }
  Runner runner(*this, context, carry, inputs, tokens);
  for (const LayerRun& r : context.structure().plan(*this).runs) runner.run(r);
  return runner.result();
}

// The context in which layer `index` finds its own parameters, also inside a scanned run. There the
// stacks pass a barrier together with the carry: a layer's slices are then made when it runs, not
// all layers' at the start, which would be a second copy of the model.
Context LayerStack::layer_context(const Context& context, size_t index, Values& carry) const {
  const sharding::LayerPlan& plan = context.structure().plan(*this);
  sharding::LayerPlace place = plan.place(static_cast<int64_t>(index));
  const LayerRun& run = plan.runs[static_cast<size_t>(place.run)];
  if (!run.scanned) return context;
  std::vector<const Param*> mine = layers_[index]->all_params();
  Values gate = carry;
  for (const Param* p : layers_[static_cast<size_t>(run.first + place.slot)]->all_params()) {
    gate.push_back(context(*p));
  }
  gate = ops::optimization_barrier(gate);
  carry.assign(gate.begin(), gate.begin() + static_cast<ptrdiff_t>(carry.size()));
  int64_t axis = context.structure().options().param_axis;
  Values values;
  for (size_t i = 0; i < mine.size(); ++i) {
    int64_t at = sharding::normalised_stack_axis(axis, mine[i]->type().rank(), mine[i]->path());
    values.push_back(ops::select_index(gate[carry.size() + i], at, place.repeat));
  }
  return context.with(mine, values);
}

EachResult LayerStack::run_each(const Context& context, const Values& carry,
                                const std::vector<Values>& inputs,
                                const TokenContext& tokens) const {
  require(inputs.empty() || inputs.size() == layers_.size(),
          {.id = "nn.inputs_each",
           .where = path(),
           .expected = "inputs for " + std::to_string(layers_.size()) + " layers, or none",
           .got = "inputs for " + std::to_string(inputs.size())});
  EachResult result{carry, {}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    ir::NameScope name(context.function(), layers_[i]->path());
    Context here = layer_context(context, i, result.carry);
    LayerResult r =
        layers_[i]->forward(here, result.carry, inputs.empty() ? Values{} : inputs[i], tokens);
    result.carry = r.carry;
    result.outputs.push_back(r.outputs);
  }
  return result;
}

StackPlan plan_layers(const LayerStack& stack, ScanMode mode) {
  std::vector<Fingerprint> prints;
  std::vector<int64_t> kinds;
  for (size_t i = 0; i < stack.size(); ++i) {
    prints.push_back(fingerprint(stack.layer(i)));
    size_t same = 0;
    while (!(prints[same] == prints[i])) ++same;
    kinds.push_back(static_cast<int64_t>(same));
  }
  StackPlan out{{stack.path(), plan_runs(kinds, mode)}, {}};
  if (mode == ScanMode::off) return out;
  if (stack.size() == 1 && mode == ScanMode::automatic) {
    out.reasons.push_back(stack.path() + " has one layer, and a loop is for two or more");
  }
  for (const LayerRun& run : out.plan.runs) {
    int64_t last = run.first + run.layers();
    for (int64_t i = run.scanned ? last - 1 : run.first; i < last; ++i) {
      if (i + 1 == out.plan.count()) break;
      auto at = static_cast<size_t>(i);
      const Layer &here = stack.layer(at), &next = stack.layer(at + 1);
      std::string reason = first_difference(here, prints[at], next, prints[at + 1]);
      if (reason.empty())
        reason = here.path() + " and " + next.path() + " are alike, but " +
                 "another cycle ends or begins between them";
      out.reasons.push_back(reason);
    }
  }
  return out;
}

}  // namespace strata::nn
