#include "strata/nn/stack_runner.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/misc.h"
#include "strata/ops/shape.h"

namespace strata::nn {
namespace {

using ir::Value;
using ir::Values;
using sharding::LayerRun;

void append(Values& to, const Values& from) { to.insert(to.end(), from.begin(), from.end()); }

// Takes the next values off a list.
class Reader {
 public:
  explicit Reader(const Values& values) : values_(values) {}
  Values take(size_t count) {
    auto from = values_.begin() + static_cast<ptrdiff_t>(at_);
    at_ += count;
    return Values(from, from + static_cast<ptrdiff_t>(count));
  }

 private:
  const Values& values_;
  size_t at_ = 0;
};

// Layers first + slot, first + slot + cycle, … of a stacked input.
Value share_of(const Value& stacked, const LayerRun& run, int64_t slot) {
  int64_t end = run.first + run.layers();
  if (run.cycle == 1) return ops::slice_axis(stacked, 0, run.first, end);
  Dims start(stacked.dims().size(), 0), limit = stacked.dims(), strides(stacked.dims().size(), 1);
  start[0] = run.first + slot;
  limit[0] = end;
  strides[0] = run.cycle;
  return ops::slice(stacked, start, limit, strides);
}

Value with_dim(const Value& v, size_t axis) {
  Dims dims = v.dims();
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), 1);
  return ops::reshape(v, dims);
}

// Per-slot values (repeats, …) interleaved to layer order (slots · repeats, …).
Value interleaved(const Values& slots) {
  if (slots.size() == 1) return slots[0];
  Values parts;
  for (const Value& s : slots) parts.push_back(with_dim(s, 1));
  Dims dims = slots[0].dims();
  dims[0] *= static_cast<int64_t>(slots.size());
  return ops::reshape(ops::concatenate(parts, 1), dims);
}

bool same_layer_type(const Value& a, const Value& b) {
  return a.dtype() == b.dtype() &&
         std::equal(a.dims().begin() + 1, a.dims().end(), b.dims().begin() + 1, b.dims().end());
}

std::string text_of(const Values& values) {
  std::string text;
  for (const Value& v : values) text += (text.empty() ? "" : ", ") + ir::text(v.type());
  return text.empty() ? "nothing" : text;
}

// The carry of a layer in the types in which it came.
Values kept_types(const Layer& layer, const Values& before, Values after) {
  bool fits = before.size() == after.size();
  for (size_t i = 0; fits && i < after.size(); ++i) {
    bool floats = is_float(before[i].dtype()) && is_float(after[i].dtype());
    fits = before[i].dims() == after[i].dims() && (floats || before[i].dtype() == after[i].dtype());
  }
  require(fits, {.id = "nn.layer_carry",
                 .where = layer.path(),
                 .expected = "a carry of the types that came in: " + text_of(before),
                 .got = text_of(after)});
  for (size_t i = 0; i < after.size(); ++i) after[i] = ops::convert(after[i], before[i].dtype());
  return after;
}

}  // namespace

StackRunner::Collected& StackRunner::entry(std::vector<Collected>& list, const std::string& name) {
  for (Collected& c : list) {
    if (c.name == name) return c;
  }
  list.push_back({name, {}, {}});
  return list.back();
}

StackRunner::StackRunner(const LayerStack& stack, const Context& context, Values carry,
                         const TokenContext& tokens)
    : stack_(stack),
      context_(context),
      plan_(context.structure().plan(stack)),
      options_(context.structure().options()),
      carry_(std::move(carry)),
      tokens_(tokens) {}

LayerResult StackRunner::run(const Values& inputs) {
  const auto& groups = context_.structure().neighbours(stack_);
  for (size_t i = 0; i < plan_.runs.size(); ++i) {
    const LayerRun& r = plan_.runs[i];
    if (r.scanned) {
      scanned(r, groups[i], inputs);
      continue;
    }
    for (int64_t k = r.first; k < r.first + r.layers(); ++k) unrolled(k, inputs);
  }
  put_taps();
  LayerResult result{carry_, {}};
  for (const Values& pieces : outputs_) result.outputs.push_back(ops::concatenate(pieces, 0));
  return result;
}

EachResult StackRunner::run_each(const std::vector<Values>& inputs) {
  EachResult result;
  for (int64_t i = 0; i < plan_.count(); ++i) {
    ir::NameScope name(function(), at(i).path());
    Values own = own_slices(i);
    Value index = ops::scalar(function(), DType::i32, static_cast<double>(i));
    LayerCall c =
        call(i, index, own, carry_, inputs.empty() ? Values{} : inputs[static_cast<size_t>(i)]);
    carry_ = c.carry;
    result.outputs.push_back(c.outputs);
    for (auto& tap : c.taps) tap.second = with_dim(tap.second, 0);
    collect_taps({c}, {i, 1, 1, false});
  }
  put_taps();
  result.carry = carry_;
  return result;
}

StackRunner::LayerCall StackRunner::call(int64_t layer, Value index, const Values& own,
                                         const Values& carry, const Values& inputs) const {
  LayerScope scope(context_, at(layer), index, own);
  LayerResult r = at(layer).forward(scope.context(), carry, inputs, tokens_);
  return {kept_types(at(layer), carry, std::move(r.carry)), std::move(r.outputs), scope.taps()};
}

void StackRunner::unrolled(int64_t layer, const Values& inputs) {
  ir::NameScope name(function(), at(layer).path());
  Values in = carry_;
  for (const Value& v : inputs) in.push_back(ops::select_index(v, 0, layer));
  LayerCall c;
  Values out = ops::call(function(), in, options_.remat, [&](const Values& v) {
    Reader reader(v);
    Values carry = reader.take(carry_.size());
    Value index = ops::scalar(function(), DType::i32, static_cast<double>(layer));
    c = call(layer, index, {}, carry, reader.take(inputs.size()));
    Values all = c.carry;
    append(all, c.values());
    return all;
  });
  Reader reader(out);
  carry_ = reader.take(carry_.size());
  Values stacked;
  for (const Value& v : reader.take(c.values().size())) stacked.push_back(with_dim(v, 0));
  c.set(stacked);
  collect({c}, {layer, 1, 1, false});
}

void StackRunner::scanned(const LayerRun& r, const std::vector<int64_t>& groups,
                          const Values& inputs) {
  ir::NameScope name(function(), stack_.path());
  ops::ScanOptions options;
  options.length = r.repeats;
  options.remat = options_.remat;
  Values xs;
  std::vector<size_t> arguments;  // values that each slot takes: its parameters, then its inputs
  for (int64_t slot = 0; slot < r.cycle; ++slot) {
    std::vector<const Param*> own = context_.structure().own_params(at(r.first + slot));
    arguments.push_back(own.size() + inputs.size());
    for (const Param* p : own) {
      xs.push_back(context_(*p));
      options.x_axes.push_back(
          sharding::normalised_stack_axis(options_.param_axis, p->type().rank(), p->path()));
      options.x_parts.push_back(context_.stack_parts(*p));
    }
    for (const Value& v : inputs) {
      xs.push_back(share_of(v, r, slot));
      options.x_axes.push_back(0);
      options.x_parts.emplace_back();
    }
  }
  std::vector<LayerCall> slots;
  // One repetition: the layers of the cycle, one after the other.
  auto body = [&](Value step, const Values& carry, const Values& slices) {
    Reader reader(slices);
    ops::Step out{carry, {}};
    Value first = step * static_cast<double>(r.cycle) + static_cast<double>(r.first);
    for (int64_t size : groups) {
      auto slot = static_cast<int64_t>(slots.size());
      std::vector<Values> own;
      for (int64_t i = 0; i < size; ++i) {
        own.push_back(reader.take(arguments[static_cast<size_t>(slot + i)]));
      }
      Value index = first + static_cast<double>(slot);
      for (LayerCall& c : neighbours(r.first + slot, index, own, out.carry, inputs.size())) {
        out.carry = c.carry;
        append(out.ys, c.values());
        slots.push_back(std::move(c));
      }
    }
    return out;
  };
  ops::Step step = ops::scan(function(), carry_, xs, options, body);
  carry_ = step.carry;
  Reader reader(step.ys);
  for (LayerCall& c : slots) c.set(reader.take(c.values().size()));
  collect(slots, r);
}

// Equal layers next to each other, with the values that each takes: a loop inside of the loop where
// there are several. The results' carries are all those after the last.
std::vector<StackRunner::LayerCall> StackRunner::neighbours(int64_t first, Value index,
                                                            const std::vector<Values>& own,
                                                            const Values& carry, size_t inputs) {
  auto one = [&](Value layer, const Values& values, const Values& before) {
    auto split = values.end() - static_cast<ptrdiff_t>(inputs);
    return call(first, layer, {values.begin(), split}, before, {split, values.end()});
  };
  if (own.size() == 1) return {one(index, own[0], carry)};
  ops::ScanOptions options;
  options.length = static_cast<int64_t>(own.size());
  options.remat = options_.remat;
  Values xs;
  for (size_t i = 0; i < own[0].size(); ++i) {
    Values parts;
    for (const Values& layer : own) parts.push_back(with_dim(layer[i], 0));
    xs.push_back(ops::concatenate(parts, 0));
  }
  LayerCall traced;
  auto body = [&](Value step, const Values& before, const Values& slices) {
    traced = one(index + step, slices, before);
    return ops::Step{traced.carry, traced.values()};
  };
  ops::Step step = ops::scan(function(), carry, xs, options, body);
  std::vector<LayerCall> out(own.size(), traced);
  for (size_t k = 0; k < own.size(); ++k) {
    out[k].carry = step.carry;
    Values values;
    for (const Value& y : step.ys) {
      values.push_back(ops::select_index(y, 0, static_cast<int64_t>(k)));
    }
    out[k].set(values);
  }
  return out;
}

// Outputs and taps, one list.
Values StackRunner::LayerCall::values() const {
  Values all = outputs;
  for (const auto& tap : taps) all.push_back(tap.second);
  return all;
}

void StackRunner::LayerCall::set(const Values& values) {
  Reader reader(values);
  outputs = reader.take(outputs.size());
  for (auto& tap : taps) tap.second = reader.take(1)[0];
}

// The layer's own parameters, cut out of their stacks inside a scanned run. There the stacks pass a
// barrier together with the carry: a layer's slices are then made when it runs, not all layers' at
// the start, which would be a second copy of the model.
Values StackRunner::own_slices(int64_t layer) {
  sharding::LayerPlace place = plan_.place(layer);
  const LayerRun& run = plan_.runs[static_cast<size_t>(place.run)];
  if (!run.scanned) return {};
  std::vector<const Param*> own = context_.structure().own_params(at(run.first + place.slot));
  Values gate = carry_;
  for (const Param* p : own) gate.push_back(context_(*p));
  gate = ops::optimization_barrier(gate);
  Reader reader(gate);
  carry_ = reader.take(carry_.size());
  Values slices;
  Value number = ops::scalar(function(), DType::i32, static_cast<double>(place.repeat));
  for (const Param* p : own) {
    int64_t axis =
        sharding::normalised_stack_axis(options_.param_axis, p->type().rank(), p->path());
    Value stack = reader.take(1)[0];
    ops::StackParts parts = context_.stack_parts(*p);
    slices.push_back(parts.parts == 1
                         ? ops::select_index(stack, axis, place.repeat)
                         : ops::read_step(ops::in_parts(stack, axis, parts), number, axis, parts));
  }
  return slices;
}

void StackRunner::collect(const std::vector<LayerCall>& slots, const LayerRun& run) {
  if (first_) outputs_.resize(slots[0].outputs.size());
  first_ = false;
  for (size_t s = 0; s < slots.size(); ++s) {
    const Values& mine = slots[s].outputs;
    Values like;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      like.push_back(outputs_[i].empty() ? slots[0].outputs[i] : outputs_[i][0]);
    }
    bool same = std::equal(mine.begin(), mine.end(), like.begin(), like.end(), same_layer_type);
    require(same, {.id = "nn.layer_outputs",
                   .where = at(run.first + static_cast<int64_t>(s)).path(),
                   .expected = "the outputs of the layers before, stacked: " + text_of(like),
                   .got = text_of(mine)});
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Values parts;
    for (const LayerCall& c : slots) parts.push_back(c.outputs[i]);
    outputs_[i].push_back(interleaved(parts));
  }
  collect_taps(slots, run);
}

void StackRunner::collect_taps(const std::vector<LayerCall>& slots, const LayerRun& run) {
  std::vector<Collected> here;  // their layers are slots of the run
  for (size_t s = 0; s < slots.size(); ++s) {
    for (const auto& tap : slots[s].taps) {
      Collected& c = entry(here, common_path(*tap.first));
      c.layers.push_back(static_cast<int64_t>(s));
      c.pieces.push_back(tap.second);
    }
  }
  for (const Collected& c : here) {
    Collected& all = entry(taps_, c.name);
    const Value& like = all.pieces.empty() ? c.pieces[0] : all.pieces[0];
    for (const Value& v : c.pieces) {
      require(same_layer_type(v, like),
              {.id = "nn.tap_type",
               .where = c.name,
               .expected = "one type in all layers, stacked: " + ir::text(like.type()),
               .got = ir::text(v.type())});
    }
    all.pieces.push_back(interleaved(c.pieces));
    for (int64_t k = 0; k < run.repeats; ++k) {
      for (int64_t slot : c.layers) all.layers.push_back(run.first + k * run.cycle + slot);
    }
  }
}

void StackRunner::put_taps() const {
  for (const Collected& c : taps_) {
    context_.sink()->put({c.name, c.layers, ops::concatenate(c.pieces, 0)});
  }
}

}  // namespace strata::nn
