#include "strata/sample/row_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/transform/lower.h"

namespace strata::sample {
namespace {

using runtime::Argument;
using runtime::Array;

std::vector<Argument> borrow_all(const runtime::ParameterTable& parameters) {
  std::vector<Argument> out;
  out.reserve(parameters.entries().size());
  for (const auto& entry : parameters.entries()) out.push_back(Argument::borrow(*entry.second));
  return out;
}

std::string text_of(const StateShape& s) { return fmt::format("{}x{}", s.rows, s.length); }

}  // namespace

RowDecoder::RowDecoder(ModelView view, std::shared_ptr<runtime::Compiler> compiler)
    : view_(view), compiler_(std::move(compiler)) {}

int64_t RowDecoder::room_for(int64_t tokens) {
  constexpr int64_t kLeast = 16;
  for (int64_t power = kLeast;; power *= 2) {
    for (int64_t room : {power, power + power / 4, power + power / 2}) {
      if (room >= tokens && (room <= kPiece || room % kPiece == 0)) return room;
    }
  }
}

runtime::Executor& RowDecoder::program(
    const std::string& name, const std::function<std::unique_ptr<ir::Function>()>& trace) {
  auto it = programs_.find(name);
  if (it != programs_.end()) return *it->second;
  Stopwatch clock;
  std::unique_ptr<ir::Function> function = trace();
  std::string text = transform::program_text(*function);
  runtime::CompileRequest request = runtime::request_for(*function, name);
  request.trace_seconds = clock.seconds();
  auto made = std::make_unique<runtime::Executor>(compiler_->compile(text, request));
  reports_.push_back(runtime::memory_report(made->program()));
  ++counters_.programs;
  return *programs_.emplace(name, std::move(made)).first->second;
}

runtime::Executor& RowDecoder::prefill_program(const PrefillShape& shape) {
  std::string name = fmt::format("prefill {}{}", shape.tokens,
                                 shape.continued ? fmt::format(" into {}", shape.room) : "");
  return program(name, [&] { return prefill_function(view_, shape); });
}

runtime::Executor& RowDecoder::decode_program(const StateShape& shape) {
  return program("decode " + text_of(shape), [&] { return decode_function(view_, shape); });
}

runtime::Executor& RowDecoder::draw_program(int64_t rows, int64_t edits, bool filters) {
  std::string name = fmt::format("draw {}{}{}", rows, filters ? " filtered" : "",
                                 edits > 0 ? fmt::format(" edits {}", edits) : "");
  DrawShape shape{rows, view_.model->config().vocabulary, edits, {.filters = filters}};
  return program(name, [&] { return draw_function(shape, mesh()); });
}

runtime::Executor& RowDecoder::insert_program(int64_t room, const StateShape& shape) {
  std::string name = fmt::format("insert {} into {}", room, text_of(shape));
  return program(name, [&] { return insert_function(view_, room, shape); });
}

runtime::Executor& RowDecoder::empty_program(const StateShape& shape) {
  return program("empty " + text_of(shape), [&] { return empty_function(view_, shape); });
}

void RowDecoder::allocate(const StateShape& shape) {
  release();
  state_ = empty_program(shape).run({});
  shape_ = shape;
}

void RowDecoder::release() {
  state_.clear();
  shape_ = {0, 0};
}

void RowDecoder::reshape(const StateShape& shape, std::span<const int32_t> source) {
  invariant(static_cast<int64_t>(source.size()) == shape.rows, "sample.reshape_source",
            "a source for each row");
  if (shape == shape_) return;
  StateShape from = shape_;
  runtime::Executor& run = program(fmt::format("reshape {} to {}", text_of(from), text_of(shape)),
                                   [&] { return reshape_function(view_, from, shape); });
  Array rows =
      Array::put(compiler_->client(), HostTensor::of<int32_t>({shape.rows}, source), mesh());
  std::vector<Argument> arguments;
  for (const Array& a : state_) arguments.push_back(Argument::borrow(a));
  arguments.push_back(Argument::borrow(rows));
  state_ = run.run(arguments);
  shape_ = shape;
  ++counters_.reshapes;
}

// Runs a program that takes the state and gives it back first; what it gives besides is returned.
std::vector<Array> RowDecoder::run_on_state(runtime::Executor& run, std::vector<Argument> before,
                                            std::span<const Argument> after) {
  size_t count = state_.size();
  before.reserve(before.size() + count + after.size());
  for (Array& a : state_) before.push_back(Argument::donate(a));
  before.insert(before.end(), after.begin(), after.end());
  std::vector<Array> results;
  try {
    results = run.run(before);
  } catch (...) {
    release();
    throw;
  }
  auto rest = results.begin() + static_cast<ptrdiff_t>(count);
  std::move(results.begin(), rest, state_.begin());
  results.erase(results.begin(), rest);
  return results;
}

PromptState RowDecoder::prefill(const runtime::ParameterTable& parameters,
                                std::span<const int32_t> prompt) {
  PromptState out;
  out.version = parameters.version();
  if (prompt.empty()) return out;
  out.room = room_for(static_cast<int64_t>(prompt.size()));
  bool whole = out.room <= kPiece;
  if (!whole) out.state = empty_program({1, out.room}).run({});
  int64_t piece = std::min(out.room, kPiece);
  runtime::Executor& run = prefill_program({piece, out.room, !whole});
  for (size_t done = 0; done < prompt.size(); done += static_cast<size_t>(piece)) {
    auto now = prompt.subspan(done, std::min(prompt.size() - done, static_cast<size_t>(piece)));
    HostTensor ids(DType::i32, {1, piece});
    std::copy(now.begin(), now.end(), ids.data<int32_t>().begin());
    std::vector<int32_t> length{static_cast<int32_t>(whole ? prompt.size() : done)};
    Array ids_array = Array::put(compiler_->client(), ids, mesh());
    Array length_array =
        Array::put(compiler_->client(), HostTensor::of<int32_t>({1}, length), mesh());
    std::vector<Argument> arguments = borrow_all(parameters);
    for (Array& a : out.state) arguments.push_back(Argument::donate(a));
    arguments.push_back(Argument::borrow(ids_array));
    arguments.push_back(Argument::borrow(length_array));
    out.state = run.run(arguments);
  }
  ++counters_.prefills;
  counters_.prefill_tokens += static_cast<int64_t>(prompt.size());
  return out;
}

void RowDecoder::put(std::span<const Array> prompt, int64_t room, int64_t row) {
  Array at = Array::put(compiler_->client(), HostTensor::scalar(static_cast<int32_t>(row)), mesh());
  std::vector<Argument> after;
  for (const Array& a : prompt) after.push_back(Argument::borrow(a));
  after.push_back(Argument::borrow(at));
  run_on_state(insert_program(room, shape_), {}, after);
}

void RowDecoder::insert(const PromptState& prompt, int64_t row) {
  if (prompt.state.empty()) return;
  put(prompt.state, prompt.room, row);
  ++counters_.inserts;
}

void RowDecoder::wait() const {
  for (const Array& a : state_) a.wait();
}

void RowDecoder::clear(int64_t row) {
  put(empty_program({1, shape_.length}).run({}), shape_.length, row);
}

HostTensor RowDecoder::step(const runtime::ParameterTable& parameters, const HostTensor& rows,
                            const HostTensor* edits, bool filters) {
  const runtime::ClientPtr& client = compiler_->client();
  Array rows_array = Array::put(client, rows, mesh());
  Argument fed = Argument::borrow(rows_array);
  std::vector<Array> logits =
      run_on_state(decode_program(shape_), borrow_all(parameters), {&fed, 1});
  Array edits_array;
  std::vector<Argument> arguments{Argument::borrow(logits.at(0)), fed};
  if (edits != nullptr) {
    edits_array = Array::put(client, *edits, mesh());
    arguments.push_back(Argument::borrow(edits_array));
  }
  int64_t width = edits == nullptr ? 0 : edits->dims()[1];
  std::vector<Array> drawn = draw_program(shape_.rows, width, filters).run(arguments);
  ++counters_.steps;
  if (filters) ++counters_.filtered_draws;
  return drawn.at(0).get();
}

void RowDecoder::prepare_decode(const StateShape& shape) {
  empty_program(shape);
  decode_program(shape);
}

void RowDecoder::prepare_draw(int64_t rows, int64_t edits, bool filters) {
  draw_program(rows, edits, filters);
}

void RowDecoder::prepare_prompt(int64_t tokens, const StateShape& shape) {
  if (tokens < 1) return;
  int64_t room = room_for(tokens);
  if (room > kPiece) empty_program({1, room});
  prefill_program({std::min(room, kPiece), room, room > kPiece});
  insert_program(room, shape);
}

}  // namespace strata::sample
