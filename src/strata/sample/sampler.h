// Sampler: answers requests with a model, many at once.
//
// Continuous batching: up to max_rows answers decode together; a row that ends is given to the next
// request at once, and only that row is filled anew. A request's samples share one computation of
// their prompt. The prompt's last token goes through the decode step, so one program draws every
// token.
//
// Shapes come from few buckets (rows as given, lengths in powers of two), so that after the first
// requests nothing compiles any more; `prepare` does it beforehand. Within one shape a sample's
// tokens are the same bit for bit whatever the other rows do; they depend on the weights and on
// (seed, request id, sample, position).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/data/tokenizer.h"
#include "strata/sample/answer.h"
#include "strata/sample/request.h"
#include "strata/sample/row_decoder.h"

namespace strata::sample {

struct SamplerOptions {
  // Numbers of rows that may decode together, rising. The smallest that holds all answers is used.
  std::vector<int64_t> rows = {1, 8, 32};
  // Tokens a row may hold; 0 = the model's context.
  int64_t context = 0;
  // Type of activations and state; parameters are converted where they differ.
  DType compute = DType::f32;
  // For requests without a seed; none = one from the system.
  std::optional<uint64_t> seed;
};

// What a sampler is made of. Model and structure must outlive it.
struct SamplerSetup {
  const models::CausalLm* model = nullptr;
  const nn::Structure* structure = nullptr;
  std::shared_ptr<runtime::Compiler> compiler;
  // For texts and stop texts; without one answers have tokens only.
  std::optional<data::Tokenizer> tokenizer;
  // Tokens that end an answer (see GenerationConfig::eos).
  std::vector<int32_t> eos;
  SamplerOptions options;
};

// Shapes that `prepare` makes ready: as if `answers` answers to prompts of `prompt_tokens` tokens
// ran at once, all with `settings` (whose `samples` do not count).
struct ExpectedWork {
  int64_t answers = 1;
  int64_t prompt_tokens = 1;
  SamplingSettings settings;
};

// Not thread-safe.
class Sampler {
 public:
  // Throws invalid_argument: "sample.rows" (not rising, or none), "sample.eos" (beyond the
  // vocabulary), "sample.vocabulary" (the tokenizer has tokens that the model lacks);
  // out_of_range "sample.context" (beyond the model's context).
  explicit Sampler(SamplerSetup setup);

  // Checks a request and puts it in line. Throws before anything changes: as check(settings);
  // invalid_argument "sample.prompt" (no token, or one that is none of the model's),
  // "sample.request_id" (empty), "sample.stop" (stop texts without a tokenizer, stop ids beyond the
  // vocabulary); already_exists "sample.request_id"; out_of_range "sample.context" when prompt and
  // new tokens do not fit.
  void submit(Request request);

  // Gives free rows to waiting answers and takes one step: every running answer gets one token.
  // `parameters` are the slots of the structure's manifest in its order; they may change between
  // steps (running answers then go on with what they computed before). Returns whether there is
  // more to do. When it throws, all running and waiting requests are dropped. `interrupted`, if
  // given, is asked before each prompt is read, when those before it have been: when it says so the
  // step ends there and no answer gets a token.
  bool step(const runtime::TablePtr& parameters, const std::function<bool()>& interrupted = {});

  // Ends all of a request's answers; they come out as `cancelled` with what they have.
  void cancel(const std::string& id);

  // Answers that ended since the last call, in the order of their end.
  std::vector<Result> take_results();

  // Answers that run or wait.
  int64_t pending() const;

  // Compiles what the work needs, and returns the memory reports of all programs so far.
  const std::vector<runtime::MemoryReport>& prepare(const ExpectedWork& work);

  const SampleCounters& counters() const { return decoder_.counters(); }
  const SamplerSetup& setup() const { return setup_; }
  // Tokens a row may hold.
  int64_t context() const { return context_; }

 private:
  using AnswerPtr = std::unique_ptr<Answer>;

  std::shared_ptr<Prompt> checked(Request request) const;
  std::vector<int32_t> stop_ids(const SamplingSettings& settings, const std::string& where) const;
  int64_t budget(const Request& request, const std::string& where) const;
  void run_step(const runtime::ParameterTable& parameters,
                const std::function<bool()>& interrupted);
  void fit_shape();
  StateShape wanted_shape() const;
  bool admit(const runtime::ParameterTable& parameters, const std::function<bool()>& interrupted);
  HostTensor row_words() const;
  std::optional<HostTensor> row_edits() const;
  void accept(int64_t row, std::span<const uint32_t> drawn, uint64_t version);
  void finish(AnswerPtr answer, FinishReason reason, std::string error = {});
  void drop_all();
  int64_t running() const;
  int64_t rows_for(int64_t answers) const;
  int64_t length_for(int64_t tokens) const;
  int64_t edits_for(bool penalties, int64_t stop_ids, int64_t length) const;

  SamplerSetup setup_;
  RowDecoder decoder_;
  int64_t context_ = 0;
  uint64_t seed_ = 0;
  std::deque<AnswerPtr> waiting_;
  std::vector<AnswerPtr> rows_;  // null = free
  std::vector<Result> results_;
};

// Answers all requests and returns the results in their order, samples of one request together.
// Every request is checked before any work is done. `interrupted`, if given, is asked between
// tokens and prompts: when it says so all requests are dropped and nothing is returned.
std::vector<Result> generate(Sampler& sampler, std::vector<Request> requests,
                             const runtime::TablePtr& parameters,
                             const std::function<bool()>& interrupted = {});

}  // namespace strata::sample
