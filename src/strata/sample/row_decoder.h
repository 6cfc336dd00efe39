// RowDecoder: the rows that decode together, on the device. It owns their state and the programs
// that change it; which row belongs to whom is the sampler's business.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/runtime/array.h"
#include "strata/runtime/compile.h"
#include "strata/runtime/executor.h"
#include "strata/runtime/memory_report.h"
#include "strata/runtime/parameter_table.h"
#include "strata/sample/programs.h"

namespace strata::sample {

// What has been done since the start; the tests read how little it was.
struct SampleCounters {
  int64_t prefills = 0;        // prompts whose state was computed
  int64_t prefill_tokens = 0;  // without padding
  int64_t inserts = 0;         // rows that got a prompt's state
  int64_t steps = 0;           // decode steps
  int64_t decoded = 0;         // tokens that they gave
  int64_t reshapes = 0;        // changes of the number of rows or their length
  int64_t filtered_draws = 0;  // steps in which some row used top-k, top-p or min-p
  int64_t whole_draws = 0;     // rows whose filters reached beyond the most likely tokens
  int64_t programs = 0;        // programs made ready, compiled or loaded
};

// The state of one prompt, to be put into any number of rows.
struct PromptState {
  uint64_t version = 0;  // of the parameters that computed it
  int64_t room = 0;
  std::vector<runtime::Array> state;  // empty when the prompt is a single token
};

// Throws what compiling and running throw. When a step fails, the rows' state is lost (`shape()` is
// empty afterwards). Not thread-safe.
class RowDecoder {
 public:
  // The model and its structure must outlive it.
  RowDecoder(ModelView view, std::shared_ptr<runtime::Compiler> compiler);

  // Rows and length of the present state; rows = 0 without one.
  const StateShape& shape() const { return shape_; }
  // Gives the rows another shape. Row r becomes what row source[r] was.
  void reshape(const StateShape& shape, std::span<const int32_t> source);
  // A fresh state of zeros.
  void allocate(const StateShape& shape);
  // Frees the state.
  void release();

  // Computes the state of a prompt, in pieces of at most kPiece tokens.
  PromptState prefill(const runtime::ParameterTable& parameters, std::span<const int32_t> prompt);
  // Puts a prompt's state into `row`.
  void insert(const PromptState& prompt, int64_t row);
  // Blocks until everything that the rows' state comes from is computed.
  void wait() const;
  // Makes a row all zeros: what a row of NaN leaves would reach its successor otherwise.
  void clear(int64_t row);

  // One step of all rows. `rows` is u32 (rows, kRowWords), `edits` i32 (rows, U, 2) or null.
  // Returns u32 (rows, 3), see `draw`.
  HostTensor step(const runtime::ParameterTable& parameters, const HostTensor& rows,
                  const HostTensor* edits, bool filters);

  // Makes ready what the calls of these shapes need, without running anything.
  void prepare_decode(const StateShape& shape);
  void prepare_draw(int64_t rows, int64_t edits, bool filters);
  void prepare_prompt(int64_t tokens, const StateShape& shape);

  SampleCounters& counters() { return counters_; }
  const SampleCounters& counters() const { return counters_; }
  // What the programs made ready so far need, in that order.
  const std::vector<runtime::MemoryReport>& reports() const { return reports_; }

  // Tokens of a prompt that are computed at once.
  static constexpr int64_t kPiece = 512;
  // What a prompt is padded to: 16, or 2^k times 1, 1.25 or 1.5; beyond kPiece multiples of it.
  static int64_t room_for(int64_t tokens);

 private:
  runtime::Executor& program(const std::string& name,
                             const std::function<std::unique_ptr<ir::Function>()>& trace);
  runtime::Executor& prefill_program(const PrefillShape& shape);
  runtime::Executor& decode_program(const StateShape& shape);
  runtime::Executor& draw_program(int64_t rows, int64_t edits, bool filters);
  runtime::Executor& insert_program(int64_t room, const StateShape& shape);
  runtime::Executor& empty_program(const StateShape& shape);
  void put(std::span<const runtime::Array> prompt, int64_t room, int64_t row);
  std::vector<runtime::Array> run_on_state(runtime::Executor& run,
                                           std::vector<runtime::Argument> before,
                                           std::span<const runtime::Argument> after);

  const sharding::Mesh& mesh() const { return view_.structure->mesh(); }

  ModelView view_;
  std::shared_ptr<runtime::Compiler> compiler_;
  StateShape shape_{0, 0};
  std::vector<runtime::Array> state_;
  std::map<std::string, std::unique_ptr<runtime::Executor>> programs_;
  std::vector<runtime::MemoryReport> reports_;
  SampleCounters counters_;
};

}  // namespace strata::sample
