#include "strata/sample/programs.h"

#include <fmt/format.h>

#include "strata/base/error.h"
#include "strata/nn/compute_type.h"
#include "strata/nn/context.h"
#include "strata/nn/linear.h"
#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/shape.h"

namespace strata::sample {
namespace {

using ir::Value;
using ir::Values;
using State = std::vector<Values>;

// An empty program for all devices of the structure's mesh.
std::unique_ptr<ir::Function> new_function(const ModelView& view, const char* name) {
  auto function = std::make_unique<ir::Function>(name);
  function->set_mesh(view.structure->mesh());
  return function;
}

// Declares the parameters and returns them in the compute type.
Values declare_parameters(ir::Function& f, const ModelView& view) {
  Values out;
  for (const sharding::Slot& s : view.structure->manifest().slots()) {
    out.push_back(nn::in_compute_type(s, f.declare(s.type, s.name), view.compute));
  }
  return out;
}

// Dims of the state that the mesh cannot share out are on every device; that the parameters' own
// reasons say.
std::vector<models::StateTypes> types_of(const ModelView& view, const StateShape& shape) {
  auto types = view.model->state_types(shape.rows, shape.length, view.compute);
  std::vector<std::string> reasons;
  for (models::StateTypes& layer : types) {
    for (sharding::ParamType& t : layer) {
      t = place_array(view.structure->placement(), t, "state", reasons);
    }
  }
  return types;
}

State declare_state(ir::Function& f, const ModelView& view, const StateShape& shape,
                    const char* name) {
  State out;
  for (const models::StateTypes& layer : types_of(view, shape)) {
    out.emplace_back();
    for (const sharding::ParamType& t : layer) {
      std::string path = fmt::format("{}.{}.{}", name, out.size() - 1, out.back().size());
      out.back().push_back(f.declare(t, path));
    }
  }
  return out;
}

Values flat(const State& state) {
  Values out;
  for (const Values& layer : state) out.insert(out.end(), layer.begin(), layer.end());
  return out;
}

// Results are the state, then `more`; with `first` >= 0 the state's memory is that of the
// arguments from `first` on.
void finish(ir::Function& f, const State& state, const std::vector<models::StateTypes>& types,
            const Values& more, int64_t first) {
  Values results = flat(state);
  auto count = static_cast<int64_t>(results.size());
  results.insert(results.end(), more.begin(), more.end());
  std::vector<ir::Port> ports;
  for (const models::StateTypes& layer : types) {
    for (const sharding::ParamType& t : layer) ports.push_back({"state", "", ir::axes_of(t)});
  }
  f.set_results(results, ports);
  if (first < 0) return;
  for (int64_t i = 0; i < count; ++i) {
    f.argument_ports()[static_cast<size_t>(first + i)].attributes =
        fmt::format("tf.aliasing_output = {} : i32", i);
  }
}

// The element-by-element map of states of equal structure.
template <class Map>
State each(const State& state, const Map& map) {
  State out;
  for (size_t i = 0; i < state.size(); ++i) {
    out.emplace_back();
    for (size_t j = 0; j < state[i].size(); ++j) out.back().push_back(map(state[i][j], i, j));
  }
  return out;
}

}  // namespace

std::unique_ptr<ir::Function> prefill_function(const ModelView& view, const PrefillShape& shape) {
  require(shape.tokens > 0 && shape.tokens <= shape.room &&
              (shape.continued || shape.tokens == shape.room),
          {.id = "sample.prefill_shape",
           .where = "prefill",
           .expected = "tokens that fill the room, or fewer where a state is continued",
           .got = fmt::format("{} tokens, room for {}", shape.tokens, shape.room)});
  auto function = new_function(view, "prefill");
  ir::Function& f = *function;
  Values parameters = declare_parameters(f, view);
  auto first = static_cast<int64_t>(parameters.size());
  models::LmInput in;
  if (shape.continued) in.state = declare_state(f, view, {1, shape.room}, "state");
  in.ids = f.parameter({DType::i32, {1, shape.tokens}}, "ids");
  Value length = f.parameter({DType::i32, {1}}, "length");
  Value place = ops::iota(f, DType::i32, in.ids.dims(), 1);
  Value along = ops::broadcast_in_dim(length, in.ids.dims(), {0});
  in.positions = shape.continued ? ops::add(place, along) : place;
  in.segments = ops::convert(ops::compare(place, along, "LT"), DType::i32);
  in.state_length = length;
  in.want_state = true;
  nn::Context context(f, *view.structure, parameters);
  finish(f, view.model->forward(context, in).state, types_of(view, {1, shape.room}), {},
         shape.continued ? first : -1);
  return function;
}

std::unique_ptr<ir::Function> decode_function(const ModelView& view, const StateShape& shape) {
  auto function = new_function(view, "decode");
  ir::Function& f = *function;
  Values parameters = declare_parameters(f, view);
  auto first = static_cast<int64_t>(parameters.size());
  models::LmInput in;
  in.state = declare_state(f, view, shape, "state");
  Value rows = f.parameter({DType::u32, {shape.rows, kRowWords}}, "rows");
  auto word = [&](int64_t i) { return ops::convert(ops::select_index(rows, 1, i), DType::i32); };
  in.ids = ops::reshape(word(kToken), {shape.rows, 1});
  in.state_length = word(kPosition);
  in.positions = ops::reshape(in.state_length, {shape.rows, 1});
  in.want_state = true;
  nn::Context context(f, *view.structure, parameters);
  models::LmOutput out = view.model->forward(context, in);
  Value logits = nn::project(out.hidden, view.model->head(context));
  logits = ops::convert(ops::reshape(logits, {shape.rows, logits.dim(2)}), DType::f32);
  finish(f, out.state, types_of(view, shape), {logits}, first);
  return function;
}

std::unique_ptr<ir::Function> draw_function(const DrawShape& shape, const sharding::Mesh& mesh) {
  auto function = std::make_unique<ir::Function>("draw");
  function->set_mesh(mesh);
  ir::Function& f = *function;
  Value logits = f.parameter({DType::f32, {shape.rows, shape.vocabulary}}, "logits");
  Value rows = f.parameter({DType::u32, {shape.rows, kRowWords}}, "rows");
  Value edits;
  if (shape.edits > 0) edits = f.parameter({DType::i32, {shape.rows, shape.edits, 2}}, "edits");
  f.set_results({draw(logits, rows, edits, shape.options)});
  return function;
}

std::unique_ptr<ir::Function> insert_function(const ModelView& view, int64_t room,
                                              const StateShape& shape) {
  auto function = new_function(view, "insert");
  ir::Function& f = *function;
  State state = declare_state(f, view, shape, "state");
  State prompt = declare_state(f, view, {1, room}, "prompt");
  Value row = f.parameter({DType::i32, {}}, "row");
  Value zero = ops::scalar(f, DType::i32, 0);
  State out = each(state, [&](Value s, size_t i, size_t j) {
    Values start(s.dims().size(), zero);
    start[0] = row;
    return ops::dynamic_update_slice(s, prompt[i][j], start);
  });
  finish(f, out, types_of(view, shape), {}, 0);
  return function;
}

std::unique_ptr<ir::Function> reshape_function(const ModelView& view, const StateShape& from,
                                               const StateShape& to) {
  auto function = new_function(view, "reshape_state");
  ir::Function& f = *function;
  State state = declare_state(f, view, from, "state");
  Value source = f.parameter({DType::i32, {to.rows}}, "source");
  std::vector<models::StateTypes> wanted = types_of(view, to);
  State out = each(state, [&](Value s, size_t i, size_t j) {
    Value moved = ops::take(s, source, 0);
    Dims high = wanted[i][j].sizes();
    for (size_t d = 0; d < high.size(); ++d) high[d] -= moved.dims()[d];
    return ops::pad(moved, ops::scalar(f, s.dtype(), 0), Dims(high.size(), 0), high);
  });
  finish(f, out, wanted, {}, -1);
  return function;
}

std::unique_ptr<ir::Function> empty_function(const ModelView& view, const StateShape& shape) {
  auto function = new_function(view, "empty_state");
  std::vector<models::StateTypes> types = types_of(view, shape);
  Values zeros;
  for (const models::StateTypes& layer : types) {
    for (const sharding::ParamType& t : layer) {
      zeros.push_back(ops::full(*function, t.dtype, t.sizes(), 0));
    }
  }
  finish(*function, {zeros}, types, {}, -1);
  return function;
}

}  // namespace strata::sample
