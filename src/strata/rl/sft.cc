#include "strata/rl/sft.h"

#include <fmt/format.h>

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/rl/machine.h"
#include "strata/rl/tensorboard.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

constexpr IntRange kCount{1, int64_t{1} << 40};
constexpr IntRange kCountOrZero{0, int64_t{1} << 40};

BatchShape shape_of(const data::BatchOptions& b) { return {b.rows, b.length, b.rows * b.length}; }

}  // namespace

SftConfig read_sft_config(Config& c) {
  SftConfig s;
  s.session = read_session_options(c);
  s.plugin = c.text("model.plugin", "cpu");
  s.run = read_run(c);
  s.optimizer = read_optimizer(c);
  s.train = c.text("data.train");
  s.eval = c.text("data.eval", "");
  s.dataset.truncation = data::parse_truncation(c.text("data.truncation", "keep_end"));
  s.dataset.bad_lines = data::parse_bad_lines(c.text("data.bad_lines", "stop"));
  s.add_eos = c.flag("data.add_eos", true);
  s.batches.packing = c.flag("data.packing", true);
  s.batches.shuffle = c.flag("data.shuffle", true);
  s.batches.seed = s.run.seed;
  s.batches.rows = c.integer("train.rows", 8, kCount);
  s.batches.length = c.integer("train.row_tokens", 512, {2, 1 << 24});
  s.dataset.max_tokens = s.batches.length;
  s.accumulate = c.integer("train.accumulate", 1, kCount);
  std::vector<std::string> types{"f32", "bf16"};
  s.options.compute = parse_dtype(c.choice("train.compute", "f32", types));
  s.options.chunk = c.integer("train.logit_chunk", 0, kCountOrZero);
  s.options.loss = LossKind::cross_entropy;
  s.steps = c.integer("sft.steps", kCount);
  s.eval_every = c.integer("sft.eval_every", 0, kCountOrZero);
  s.eval_batches = c.integer("sft.eval_batches", 0, kCountOrZero);
  s.export_to = c.text("run.export", "");
  c.reject_unknown();
  s.effective = c.effective();
  return s;
}

TokenBatch token_batch(const data::Batch& b, const BatchShape& shape) {
  TokenBatch out;
  out.shape = shape;
  out.ids = b.input_ids.clone();
  out.positions = b.positions.clone();
  out.segments = b.segment_ids.clone();
  out.parents = HostTensor(DType::i32, {shape.rows, shape.tokens});
  for (HostTensor* t : {&out.source, &out.labels, &out.sequence}) {
    *t = HostTensor(DType::i32, {shape.scored});
  }
  out.terms = HostTensor(DType::f32, {5, shape.scored});
  auto mask = b.loss_mask.data<float>();
  auto targets = b.targets.data<int32_t>();
  const auto places = static_cast<int64_t>(mask.size()) / shape.groups;
  const int64_t room = shape.scored / shape.groups;
  for (int64_t group = 0; group < shape.groups; ++group) {
    int64_t n = 0;
    for (int64_t i = 0; i < places; ++i) {
      auto from = static_cast<size_t>(group * places + i);
      if (mask[from] == 0) continue;
      invariant(n < room, "rl.sft_scored", "room for scored tokens");
      int64_t place = group * room + n++;
      auto to = static_cast<size_t>(place);
      out.source.data<int32_t>()[to] = static_cast<int32_t>(i);
      out.labels.data<int32_t>()[to] = targets[from];
      out.terms.data<float>()[to] = mask[from];
      out.scored.push_back({.place = place});
    }
  }
  out.real_tokens = b.tokens;
  return out;
}

SftRun::SftRun(SftConfig config, std::shared_ptr<runtime::Compiler> compiler)
    : config_(std::move(config)) {
  check_output(config_.run, config_.export_to);
  session_ = open_session(config_.session, std::move(compiler));
  open_data();
  make_engine();
  lock_ = open_output(config_.run);
  writer_ = open_writer(config_.run);
  if (config_.run.resume) resume();
  write_file_atomically(config_.run.output / "config.json", config_.effective.dump(2) + "\n");
  const int64_t reported = done_ - (unreported_ ? 1 : 0);
  auto at = config_.run.resume ? std::optional<int64_t>(reported) : std::nullopt;
  metrics_.add(std::make_unique<JsonLinesSink>(config_.run.output / "metrics.jsonl", at));
  metrics_.add(std::make_unique<TensorBoardSink>(config_.run.output / "tensorboard", at));
  metrics_.add(std::make_unique<LiveLine>("sft", done_, config_.steps));
}

SftRun::~SftRun() = default;

data::Dataset SftRun::open_dataset(const fs::path& path) const {
  data::DatasetOptions o = config_.dataset;
  std::vector<int32_t> eos = session_.eos_ids();
  if (config_.add_eos && !eos.empty()) o.eos_id = eos.front();
  return data::Dataset(path, *session_.tokenizer, session_.chat, o);
}

data::BatchStream SftRun::open_stream(data::Dataset& dataset, int64_t epochs) const {
  data::BatchOptions o = config_.batches;
  o.epochs = epochs;
  if (epochs > 0) o.shuffle = false;
  return data::BatchStream(&dataset, o, config_.dataset.max_tokens);
}

void SftRun::open_data() {
  int64_t context = session_.model->config().max_positions;
  require(config_.batches.length <= context,
          {.id = "rl.sft_context",
           .where = "train.row_tokens",
           .expected = "at most " + std::to_string(context) + " tokens, the model's context",
           .got = std::to_string(config_.batches.length),
           .code = Code::out_of_range});
  dataset_ = std::make_unique<data::Dataset>(open_dataset(config_.train));
  stream_ = std::make_unique<data::BatchStream>(open_stream(*dataset_, 0));
  if (!config_.eval.empty()) open_dataset(config_.eval);
}

void SftRun::make_engine() {
  Engine::Setup setup;
  setup.model = session_.model.get();
  setup.structure = session_.structure.get();
  setup.compiler = session_.compiler;
  setup.shape = shape_of(config_.batches);
  setup.options = config_.options;
  setup.parameters = session_.load_parameters();
  setup.max_skipped = config_.optimizer.max_skipped;
  engine_ = std::make_unique<Engine>(
      std::move(setup),
      make_plan(config_.optimizer, session_.structure->manifest(), session_.structure->mesh()));
}

void SftRun::resume() {
  const fs::path& run = config_.run.output;
  std::optional<Progress> saved = load_latest(run, *engine_, session_.compiler->client());
  if (!saved) {
    log_line("nothing to resume in " + run.string() + ": starting anew");
    return;
  }
  done_ = saved->step;
  stream_->restore(data::stream_state_from_json(saved->loader.at("stream"), run.string()),
                   data::dataset_counts_from_json(saved->loader.at("counts"), run.string()));
  if (saved->micro_steps) {
    micro_ = *saved->micro_steps;
    trained_ = get_double(saved->state, "trained", run.string());
  }
  if (saved->state.contains("unreported")) {
    unreported_ = metrics_from(saved->state["unreported"], run.string());
  }
  log_line("resumed after " + progress_text(done_, micro_));
}

Json SftRun::position() const {
  return {{"stream", data::to_json(stream_->state())},
          {"counts", data::to_json(stream_->counts())}};
}

void SftRun::begin_step() {
  begin_ = position_ = position();
  counts_ = engine_->counts();
  version_ = engine_->parameters()->version();
  from_start_ = micro_ == 0;
}

void SftRun::micro_step() {
  std::optional<data::Batch> batch = stream_->next();
  invariant(batch.has_value(), "rl.sft_stream", "an endless stream of batches");
  // The weight is the number of trained tokens: micro-steps of unequal size count as they should.
  const auto weight = static_cast<double>(batch->trained);
  engine_->accumulate(token_batch(*batch, engine_->shape()), weight, 1.0);
  ++micro_;
  trained_ += weight;
  position_ = position();
  phases_.add_tokens("step", batch->tokens);
}

// Whether the step was finished: it is not when the run is to stop before.
bool SftRun::step(RunClock& clock) {
  PhaseClock::Scope phase(phases_, "step");
  StepMetrics metrics = StepMetrics::now(done_);
  while (micro_ < config_.accumulate) {
    if (micro_ > 0 && clock.stops(StopPoint::micro_step)) return false;
    micro_step();
    if (micro_ < config_.accumulate && clock.save_is_due()) {
      save();
      clock.saved();
    }
  }
  UpdateStats update = engine_->update();
  metrics.add("loss/train", update.loss);
  metrics.add("loss/grad_norm", update.grad_norm);
  metrics.add("loss/lr", update.lr);
  metrics.add("train/tokens", trained_);
  metrics.add("train/updates_skipped", static_cast<double>(engine_->counts().steps_skipped));
  unreported_ = std::move(metrics);
  ++done_;
  micro_ = 0;
  trained_ = 0;
  begin_step();
  return true;
}

// Nothing when the run is to stop.
std::optional<double> SftRun::evaluate(const RunClock& clock) {
  PhaseClock::Scope phase(phases_, "evaluate");
  data::Dataset dataset = open_dataset(config_.eval);
  data::BatchStream stream = open_stream(dataset, 1);
  double sum = 0, weight = 0;
  for (int64_t k = 0; config_.eval_batches == 0 || k < config_.eval_batches; ++k) {
    if (clock.stops(StopPoint::evaluation)) return std::nullopt;
    std::optional<data::Batch> batch = stream.next();
    if (!batch) break;
    TokenBatch tokens = token_batch(*batch, engine_->shape());
    std::vector<float> logprobs = engine_->logprobs(tokens, 1.0).logprobs;
    for (const ScoredToken& token : tokens.scored) {
      auto at = static_cast<size_t>(token.place);
      double w = tokens.terms.data<float>()[at];
      sum -= w * static_cast<double>(logprobs[at]);
      weight += w;
    }
  }
  return weight > 0 ? sum / weight : 0;
}

void SftRun::save() {
  PhaseClock::Scope phase(phases_, "save");
  Progress progress;
  progress.step = done_;
  progress.loader = position_;
  if (micro_ > 0) {
    progress.micro_steps = micro_;
    progress.state = {{"trained", trained_}};
  }
  if (unreported_) progress.state["unreported"] = to_json(*unreported_);
  progress.config = config_.effective;
  progress.counts = counts_;
  save_run(*writer_, session_, *engine_, config_.run.seed, progress);
}

// What was done is not lost to a bad line or a device that fails. An update that was given up left
// every bit as it was before its step; one that failed half-way left nothing to save.
void SftRun::save_before_failure(const Error& error) {
  const bool held = engine_->parameters() != nullptr;
  const bool given_up = held && error.id() == "optim.skipped_in_a_row";
  if (!held || (engine_->parameters()->version() != version_ && !given_up)) return;
  const auto& sums = engine_->accumulator();
  bool whole = !sums.empty() && std::none_of(sums.begin(), sums.end(),
                                             [](const runtime::Array& a) { return a.consumed(); });
  if (!whole) {
    if (!from_start_) return;
    micro_ = 0;
    position_ = begin_;
  }
  if (done_ == 0 && micro_ == 0) return;
  const std::string what = progress_text(done_, micro_);
  try {
    save();
    writer_->wait();
    log_line("the state after " + what + " is saved; --resume goes on");
  } catch (const Error& e) {
    log_warning("the state after " + what + " is lost: " + e.what());
  }
}

// Evaluates after the last step where that is due, and writes its metrics. False when the run is
// to stop before that is done.
bool SftRun::report(const RunClock& clock, SftSummary& summary) {
  StepMetrics metrics = *unreported_;
  bool last = done_ == config_.steps;
  bool evaluates = !config_.eval.empty() &&
                   (last || (config_.eval_every > 0 && done_ % config_.eval_every == 0));
  if (evaluates) {
    std::optional<double> loss;
    with_evaluated(config_.run, *engine_, [&] { loss = evaluate(clock); });
    if (!loss) return false;
    summary.eval_loss = loss;
    metrics.add("loss/eval", *loss);
  }
  phases_.report_step(metrics);
  add_memory(metrics);
  metrics.add("compiles", static_cast<double>(session_.compiler->counters().compiles));
  metrics_.write(std::move(metrics));
  unreported_.reset();
  return true;
}

// A step with its report, or what is left of one. False when the run is to stop before that is
// done.
bool SftRun::go_on(RunClock& clock, SftSummary& summary) {
  if (!unreported_ && (clock.stops(StopPoint::step) || !step(clock))) return false;
  summary.last_loss = unreported_->find("loss/train").value_or(0);
  if (summary.first_loss == 0) summary.first_loss = summary.last_loss;
  return report(clock, summary);
}

bool SftRun::finish(const RunClock& clock) {
  bool done = false;
  with_evaluated(config_.run, *engine_, [&] {
    done = export_run(config_.run, session_, *engine_, clock, config_.export_to);
  });
  return done;
}

SftSummary SftRun::run(const Interrupted& interrupted) {
  report_memory(engine_->prepare(config_.accumulate > 1),
                session_.compiler->client()->platform_name(), machine_memory(),
                saving_bytes(config_.run, *engine_));
  SftSummary out;
  RunClock clock(config_.run, interrupted);
  begin_step();
  while (unreported_ || done_ < config_.steps) {
    const int64_t number = done_ + (unreported_ ? 0 : 1);
    try {
      out.interrupted = !go_on(clock, out);
    } catch (Error& e) {
      e.add_context(
          fmt::format("in step {} of the run in {}", number, config_.run.output.string()));
      save_before_failure(e);
      throw;
    }
    if (out.interrupted) break;
    bool due = config_.run.save_every > 0 && done_ % config_.run.save_every == 0;
    if (due || clock.save_is_due()) {
      save();
      clock.saved();
    }
  }
  if (done_ > 0 || micro_ > 0) save();
  writer_->wait();
  out.steps = done_;
  if (!out.interrupted) out.interrupted = !finish(clock);
  out.seconds = clock_.seconds();
  return out;
}

}  // namespace strata::rl
