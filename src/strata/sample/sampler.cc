#include "strata/sample/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "strata/base/error.h"
#include "strata/base/hash.h"
#include "strata/base/strings.h"

namespace strata::sample {
namespace {

// Rows get room for this many tokens beyond what they hold, at most: long answers make the rows
// longer when they get there.
constexpr int64_t kLookahead = 512;
constexpr int64_t kLeastLength = 128;
// A smaller number of rows pays off only while there is this much left to do.
constexpr int64_t kWorthShrinking = 128;

int64_t power_of_two(int64_t x) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x)));
}

// Tokens that a row should have room for when `answer` runs in it.
int64_t wanted_room(const Answer& answer) {
  int64_t whole = answer.position() + 1 + answer.remaining();
  return std::min(whole, answer.position() + 1 + kLookahead);
}

uint64_t system_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

void check_setup(const SamplerSetup& s) {
  const models::LmConfig& config = s.model->config();
  const std::vector<int64_t>& rows = s.options.rows;
  bool rising = !rows.empty() && rows[0] >= 1;
  for (size_t i = 1; i < rows.size(); ++i) rising = rising && rows[i] > rows[i - 1];
  require(rising, {.id = "sample.rows",
                   .where = "sampler",
                   .expected = "rising numbers of rows, at least one",
                   .got = list_text(rows)});
  require(s.options.context >= 0 && s.options.context <= config.max_positions,
          {.id = "sample.context",
           .where = "sampler",
           .expected = fmt::format("at most the model's context of {}", config.max_positions),
           .got = std::to_string(s.options.context),
           .code = Code::out_of_range});
  for (int32_t id : s.eos) {
    require(id >= 0 && id < config.vocabulary,
            {.id = "sample.eos",
             .where = "sampler",
             .expected = fmt::format("end-of-text ids below {}", config.vocabulary),
             .got = std::to_string(id)});
  }
  require(!s.tokenizer || s.tokenizer->vocab_size() <= config.vocabulary,
          {.id = "sample.vocabulary",
           .where = "sampler",
           .expected = fmt::format("a tokenizer of at most {} tokens, which the model has",
                                   config.vocabulary),
           .got = s.tokenizer ? std::to_string(s.tokenizer->vocab_size()) : "none",
           .cure = "Take the tokenizer that belongs to the model"});
}

}  // namespace

Sampler::Sampler(SamplerSetup setup)
    : setup_((check_setup(setup), std::move(setup))),
      decoder_({setup_.model, setup_.structure, setup_.options.compute}, setup_.compiler),
      context_(setup_.options.context > 0 ? setup_.options.context
                                          : setup_.model->config().max_positions),
      seed_(setup_.options.seed ? *setup_.options.seed : system_seed()) {}

// All tokens that end an answer: the request's, those of stop texts that are special tokens (which
// leave no text in which they could be found), and the model's.
std::vector<int32_t> Sampler::stop_ids(const SamplingSettings& s, const std::string& where) const {
  std::vector<int32_t> out = s.stop_ids;
  for (const std::string& text : s.stop) {
    require(setup_.tokenizer.has_value(), {.id = "sample.stop",
                                           .where = where,
                                           .expected = "no stop texts, for there is no tokenizer",
                                           .got = "\"" + text + "\"",
                                           .cure = "Use stop_ids"});
    std::optional<int32_t> id = setup_.tokenizer->token_id(text);
    if (id && setup_.tokenizer->is_special(*id)) out.push_back(*id);
  }
  int64_t vocabulary = setup_.model->config().vocabulary;
  for (int32_t id : out) {
    require(id >= 0 && id < vocabulary, {.id = "sample.stop",
                                         .where = where,
                                         .expected = fmt::format("stop ids below {}", vocabulary),
                                         .got = std::to_string(id)});
  }
  if (!s.ignore_eos) out.insert(out.end(), setup_.eos.begin(), setup_.eos.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// New tokens that the request gets at most.
int64_t Sampler::budget(const Request& request, const std::string& where) const {
  auto size = static_cast<int64_t>(request.tokens.size());
  int64_t room = context_ - size;
  int64_t least = request.settings.max_new_tokens.value_or(1);
  if (room < least) {
    fail({.id = "sample.context",
          .where = where,
          .expected = fmt::format("prompt and new tokens within the context of {}", context_),
          .got = fmt::format("{} + {} tokens", size, least),
          .cure = "Shorten the prompt or lower max_new_tokens",
          .code = Code::out_of_range});
  }
  return request.settings.max_new_tokens.value_or(std::min(room, kDefaultNewTokens));
}

std::shared_ptr<Prompt> Sampler::checked(Request request) const {
  std::string where = "request '" + request.id + "'";
  check(request.settings, where);
  require(
      !request.id.empty(),
      {.id = "sample.request_id", .where = "request", .expected = "an id", .got = "an empty text"});
  require(!request.tokens.empty(), {.id = "sample.prompt",
                                    .where = where,
                                    .expected = "a prompt of at least one token",
                                    .got = "none"});
  int64_t vocabulary = setup_.model->config().vocabulary;
  for (size_t i = 0; i < request.tokens.size(); ++i) {
    if (request.tokens[i] >= 0 && request.tokens[i] < vocabulary) continue;
    fail({.id = "sample.prompt",
          .where = fmt::format("{}, token {}", where, i),
          .expected = fmt::format("an id below {}", vocabulary),
          .got = std::to_string(request.tokens[i])});
  }
  auto out = std::make_shared<Prompt>();
  out->stop_ids = stop_ids(request.settings, where);
  out->budget = budget(request, where);
  out->seed = request.settings.seed.value_or(seed_);
  out->id_hash = hash64(request.id);
  out->waiting = request.settings.samples;
  out->request = std::move(request);
  return out;
}

void Sampler::submit(Request request) {
  auto same = [&](const AnswerPtr& a) { return a && a->prompt()->request.id == request.id; };
  bool taken = std::any_of(waiting_.begin(), waiting_.end(), same) ||
               std::any_of(rows_.begin(), rows_.end(), same);
  require(!taken, {.id = "sample.request_id",
                   .where = "request '" + request.id + "'",
                   .expected = "an id that no unfinished request has",
                   .got = "one that is in use",
                   .code = Code::already_exists});
  std::shared_ptr<Prompt> prompt = checked(std::move(request));
  for (int64_t i = 0; i < prompt->waiting; ++i) {
    waiting_.push_back(std::make_unique<Answer>(prompt, i, setup_.tokenizer));
  }
}

int64_t Sampler::running() const {
  return std::count_if(rows_.begin(), rows_.end(), [](const AnswerPtr& a) { return a != nullptr; });
}

int64_t Sampler::pending() const { return running() + static_cast<int64_t>(waiting_.size()); }

int64_t Sampler::rows_for(int64_t answers) const {
  for (int64_t rows : setup_.options.rows) {
    if (rows >= answers) return rows;
  }
  return setup_.options.rows.back();
}

int64_t Sampler::length_for(int64_t tokens) const {
  return power_of_two(std::max(kLeastLength, tokens));
}

int64_t Sampler::edits_for(bool penalties, int64_t stop_ids, int64_t length) const {
  return power_of_two(std::max<int64_t>(16, stop_ids + (penalties ? length : 0)));
}

// The shape for what runs and what will start now.
StateShape Sampler::wanted_shape() const {
  const StateShape& now = decoder_.shape();
  int64_t active = running();
  StateShape wanted{rows_for(pending()), active > 0 ? now.length : kLeastLength};
  int64_t longest = 0;
  for (const AnswerPtr& a : rows_) {
    if (!a) continue;
    longest = std::max(longest, a->remaining());
    if (a->position() >= now.length) {
      wanted.length = std::max(wanted.length, length_for(wanted_room(*a)));
    }
  }
  if (active > 0 && wanted.rows < now.rows && longest < kWorthShrinking) wanted.rows = now.rows;
  auto starting = static_cast<int64_t>(waiting_.size());
  starting = std::min(starting, wanted.rows - active);
  for (int64_t i = 0; i < starting; ++i) {
    wanted.length = std::max(wanted.length, length_for(wanted_room(*waiting_[i])));
  }
  return wanted;
}

void Sampler::fit_shape() {
  StateShape wanted = wanted_shape();
  if (wanted == decoder_.shape()) return;
  std::vector<AnswerPtr> moved;
  std::vector<int32_t> source;
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (!rows_[r]) continue;
    source.push_back(static_cast<int32_t>(r));
    moved.push_back(std::move(rows_[r]));
  }
  bool empty = moved.empty();
  moved.resize(static_cast<size_t>(wanted.rows));
  source.resize(static_cast<size_t>(wanted.rows), 0);
  rows_ = std::move(moved);
  if (empty) {
    decoder_.allocate(wanted);
  } else {
    decoder_.reshape(wanted, source);
  }
}

// Whether it was done: not when it was interrupted.
bool Sampler::admit(const runtime::ParameterTable& parameters,
                    const std::function<bool()>& interrupted) {
  for (size_t r = 0; r < rows_.size() && !waiting_.empty(); ++r) {
    if (rows_[r]) continue;
    Prompt& prompt = *waiting_.front()->prompt();
    const bool reads = !prompt.state || prompt.state->version != parameters.version();
    if (reads && interrupted) {
      decoder_.wait();
      if (interrupted()) return false;
    }
    rows_[r] = std::move(waiting_.front());
    waiting_.pop_front();
    if (reads) {
      std::span<const int32_t> tokens = prompt.request.tokens;
      prompt.state = decoder_.prefill(parameters, tokens.first(tokens.size() - 1));
    }
    decoder_.insert(*prompt.state, static_cast<int64_t>(r));
    if (--prompt.waiting == 0) prompt.state.reset();
  }
  return true;
}

HostTensor Sampler::row_words() const {
  const StateShape& shape = decoder_.shape();
  HostTensor out(DType::u32, {shape.rows, kRowWords});
  std::span<uint32_t> words = out.data<uint32_t>();
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::span<uint32_t> mine = words.subspan(r * kRowWords, kRowWords);
    if (rows_[r]) {
      rows_[r]->write_words(mine);
    } else {
      // A free row stands beyond its room, so that it writes nothing.
      mine[kPosition] = static_cast<uint32_t>(shape.length);
    }
  }
  return out;
}

std::optional<HostTensor> Sampler::row_edits() const {
  bool any = false, penalties = false;
  size_t stops = 0;
  for (const AnswerPtr& a : rows_) {
    if (!a || !a->uses_edits()) continue;
    any = true;
    penalties = penalties || uses_penalties(a->settings());
    stops = std::max(stops, a->prompt()->stop_ids.size());
  }
  if (!any) return std::nullopt;
  const StateShape& shape = decoder_.shape();
  int64_t width = edits_for(penalties, static_cast<int64_t>(stops), shape.length);
  HostTensor out(DType::i32, {shape.rows, width, 2});
  std::span<int32_t> edits = out.data<int32_t>();
  for (size_t i = 0; i < edits.size(); i += 2) edits[i] = std::numeric_limits<int32_t>::max();
  for (size_t r = 0; r < rows_.size(); ++r) {
    auto size = static_cast<size_t>(2 * width);
    if (rows_[r]) rows_[r]->write_edits(edits.subspan(r * size, size));
  }
  return out;
}

void Sampler::finish(AnswerPtr answer, FinishReason reason, std::string error) {
  results_.push_back(answer->take(reason, std::move(error)));
}

void Sampler::accept(int64_t row, std::span<const uint32_t> drawn, uint64_t version) {
  AnswerPtr& answer = rows_[static_cast<size_t>(row)];
  SampleCounters& counters = decoder_.counters();
  ++counters.decoded;
  if (static_cast<DrawnBy>(drawn[2]) == DrawnBy::whole) ++counters.whole_draws;
  auto logprob = std::bit_cast<float>(drawn[1]);
  if (std::isnan(logprob)) {
    std::string error =
        describe({.id = "sample.logits",
                  .where = fmt::format("request '{}', position {}", answer->prompt()->request.id,
                                       answer->position() + 1),
                  .expected = "finite logits",
                  .got = "NaN or infinity",
                  .cure = "Check the model's weights"});
    finish(std::move(answer), FinishReason::error, error);
    decoder_.clear(row);
    return;
  }
  std::optional<FinishReason> ended =
      answer->accept(static_cast<int32_t>(drawn[0]), logprob, version);
  if (ended) finish(std::move(answer), *ended);
}

void Sampler::run_step(const runtime::ParameterTable& parameters,
                       const std::function<bool()>& interrupted) {
  fit_shape();
  if (!admit(parameters, interrupted)) return;
  bool filters = false;
  for (const AnswerPtr& a : rows_) filters = filters || (a && uses_filters(a->settings()));
  std::optional<HostTensor> edits = row_edits();
  HostTensor drawn = decoder_.step(parameters, row_words(), edits ? &*edits : nullptr, filters);
  std::span<const uint32_t> words = std::as_const(drawn).data<uint32_t>();
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r]) accept(static_cast<int64_t>(r), words.subspan(3 * r, 3), parameters.version());
  }
}

bool Sampler::step(const runtime::TablePtr& parameters, const std::function<bool()>& interrupted) {
  if (pending() > 0) {
    try {
      run_step(*parameters, interrupted);
    } catch (...) {
      drop_all();
      throw;
    }
  }
  if (pending() > 0) return true;
  drop_all();
  return false;
}

void Sampler::drop_all() {
  waiting_.clear();
  rows_.clear();
  decoder_.release();
}

void Sampler::cancel(const std::string& id) {
  auto mine = [&](const AnswerPtr& a) { return a && a->prompt()->request.id == id; };
  for (AnswerPtr& a : rows_) {
    if (mine(a)) finish(std::move(a), FinishReason::cancelled);
  }
  std::deque<AnswerPtr> rest;
  for (AnswerPtr& a : waiting_) {
    if (mine(a)) {
      finish(std::move(a), FinishReason::cancelled);
    } else {
      rest.push_back(std::move(a));
    }
  }
  waiting_ = std::move(rest);
}

std::vector<Result> Sampler::take_results() { return std::exchange(results_, {}); }

const std::vector<runtime::MemoryReport>& Sampler::prepare(const ExpectedWork& work) {
  const SamplingSettings& s = work.settings;
  int64_t fresh = std::min(s.max_new_tokens.value_or(kDefaultNewTokens), kLookahead);
  StateShape shape{rows_for(work.answers),
                   length_for(std::min(context_, work.prompt_tokens + fresh))};
  decoder_.prepare_decode(shape);
  decoder_.prepare_prompt(work.prompt_tokens - 1, shape);
  auto stops = static_cast<int64_t>(s.stop_ids.size() + (s.ignore_eos ? 0 : setup_.eos.size()));
  bool penalties = uses_penalties(s);
  bool edits = penalties || (s.min_new_tokens > 0 && stops > 0);
  decoder_.prepare_draw(shape.rows, edits ? edits_for(penalties, stops, shape.length) : 0,
                        uses_filters(s));
  return decoder_.reports();
}

namespace {

void drop(Sampler& sampler, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) sampler.cancel(id);
  sampler.take_results();
}

}  // namespace

std::vector<Result> generate(Sampler& sampler, std::vector<Request> requests,
                             const runtime::TablePtr& parameters,
                             const std::function<bool()>& interrupted) {
  require(sampler.pending() == 0, {.id = "sample.busy",
                                   .where = "generate",
                                   .expected = "a sampler without requests",
                                   .got = fmt::format("{} answers pending", sampler.pending()),
                                   .code = Code::failed_precondition});
  std::map<std::string, size_t> first;  // of a request's results
  std::vector<std::string> ids;
  size_t total = 0;
  try {
    for (Request& r : requests) {
      ids.push_back(r.id);
      auto samples = static_cast<size_t>(std::max<int64_t>(r.settings.samples, 0));
      sampler.submit(std::move(r));
      first[ids.back()] = total;
      total += samples;
    }
  } catch (...) {
    drop(sampler, ids);
    throw;
  }
  while (sampler.step(parameters, interrupted)) {
    if (!interrupted || !interrupted()) continue;
    drop(sampler, ids);
    return {};
  }
  std::vector<Result> out(total);
  for (Result& r : sampler.take_results()) {
    size_t at = first.at(r.id) + static_cast<size_t>(r.sample);
    out[at] = std::move(r);
  }
  return out;
}

}  // namespace strata::sample
