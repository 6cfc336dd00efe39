#include "strata/rl/grpo.h"

#include <fmt/format.h>

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/rl/prompts.h"
#include "strata/rl/tensorboard.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

int64_t rounded(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Held-out problems whose replies the report shows.
constexpr size_t kShownReplies = 12;

}  // namespace

struct GrpoRun::State {
  int64_t step = 0;  // finished steps
  int64_t best_step = 0;
  double best_accuracy = -1;  // on the validation problems
  double seconds = 0;         // of earlier runs that were resumed
  double before = 0;
  std::vector<std::string> replies_before;
  std::vector<bool> right_before;
  // Metrics of the last finished step, as long as its evaluation or their writing is still to come.
  std::optional<StepMetrics> unreported;
  std::vector<std::string> replies_after;
  std::vector<bool> right_after;

  Json json() const {
    Json out{{"step", step},
             {"best_step", best_step},
             {"best_accuracy", best_accuracy},
             {"seconds", seconds},
             {"before", before},
             {"replies_before", replies_before},
             {"right_before", right_before}};
    if (unreported) out["unreported"] = to_json(*unreported);
    return out;
  }
  static State from(const Json& j, const std::string& where) {
    State s;
    s.step = get_int(j, "step", where);
    s.best_step = get_int(j, "best_step", where);
    s.best_accuracy = get_double(j, "best_accuracy", where);
    s.seconds = get_double(j, "seconds", where);
    s.before = get_double(j, "before", where);
    s.replies_before = j.at("replies_before").get<std::vector<std::string>>();
    s.right_before = j.at("right_before").get<std::vector<bool>>();
    if (j.contains("unreported")) s.unreported = metrics_from(j["unreported"], where);
    return s;
  }
};

GrpoRun::GrpoRun(GrpoConfig config, std::shared_ptr<runtime::Compiler> compiler,
                 const MakeRollouts& make_rollouts)
    : config_(std::move(config)), state_(std::make_unique<State>()) {
  check_output(config_.run);
  session_ = open_session(config_.session, std::move(compiler));
  open_splits();
  config_.step.mask.stop_ids = session_.eos_ids();
  rewards_ = RewardSet(config_.rewards);
  make_engine(make_rollouts);
  lock_ = open_output(config_.run);
  writer_ = open_writer(config_.run);
  if (config_.run.resume) resume();
  write_file_atomically(config_.run.output / "config.json", config_.effective.dump(2) + "\n");
  open_sinks(state_->step - (state_->unreported ? 1 : 0));
  step_ = std::make_unique<GrpoStep>(*engine_, rewards_, config_.step, phases_, reference_.get());
}

GrpoRun::~GrpoRun() = default;

void GrpoRun::open_splits() {
  if (config_.data.empty()) {
    splits_ = make_task(config_.task);
  } else {
    splits_.train = read_prompts(config_.data);
  }
}

// A row must hold the longest prompt with its whole group, or, where that is long, with one
// completion; short groups share a row.
BatchShape GrpoRun::choose_shape() const {
  BatchShape shape = config_.shape;
  int64_t prompt = 1;
  for (const Example& e : splits_.train) {
    prompt = std::max(prompt, static_cast<int64_t>(session_.prompt_ids(e.messages).size()));
  }
  int64_t longest = config_.step.max_new_tokens;
  int64_t context = session_.model->config().max_positions;
  require(prompt + longest <= context,
          {.id = "rl.context",
           .where = config_.session.model.string(),
           .expected = fmt::format("prompts and completions of at most {} tokens", context),
           .got = fmt::format("{} + {}", prompt, longest),
           .cure = "Lower grpo.max_new_tokens",
           .code = Code::out_of_range});
  int64_t group = prompt + config_.group_size * (longest - 1);
  if (shape.tokens == 0) {
    int64_t least = prompt + longest;
    shape.tokens =
        rounded(std::max(least, std::min<int64_t>(std::max<int64_t>(group, 512), 2048)), 64);
  }
  if (shape.scored == 0) {
    double share = static_cast<double>(config_.group_size * longest) / static_cast<double>(group);
    auto scored = static_cast<int64_t>(share * static_cast<double>(shape.rows * shape.tokens));
    shape.scored = rounded(std::max(scored, longest), 64);
  }
  require(shape.tokens >= prompt + longest - 1 && shape.scored >= longest,
          {.id = "rl.row_tokens",
           .where = "train.row_tokens, train.scored_tokens",
           .expected = fmt::format("at least {} and {}, for the longest prompt and completion",
                                   prompt + longest - 1, longest),
           .got = fmt::format("{} and {}", shape.tokens, shape.scored),
           .code = Code::out_of_range});
  return shape;
}

void GrpoRun::make_engine(const MakeRollouts& make_rollouts) {
  Engine::Setup setup;
  setup.model = session_.model.get();
  setup.structure = session_.structure.get();
  setup.compiler = session_.compiler;
  setup.shape = choose_shape();
  setup.options = config_.train;
  setup.parameters = session_.load_parameters();
  setup.max_skipped = config_.optimizer.max_skipped;
  const sharding::Manifest& manifest = session_.structure->manifest();
  optim::UpdatePlan plan = make_plan(config_.optimizer, manifest, session_.structure->mesh());
  if (config_.step.use_reference) {
    std::vector<std::pair<std::string, runtime::Array>> copies;  // of what will change
    for (const optim::Parameter& p : plan.parameters()) {
      auto slot = static_cast<size_t>(manifest.index_of(p.name));
      copies.emplace_back(p.name, setup.parameters[slot].clone());
    }
    reference_ = runtime::ParameterTable::make(0, std::move(copies));
  }
  engine_ = std::make_unique<Engine>(std::move(setup), std::move(plan));
  rollouts_ = make_rollouts(session_, *engine_);
}

void GrpoRun::open_sinks(int64_t resume_at) {
  auto at = config_.run.resume ? std::optional<int64_t>(resume_at) : std::nullopt;
  fs::path metrics = config_.run.output / "metrics.jsonl";
  std::error_code ec;
  if (at && fs::exists(metrics, ec)) metrics_.set_history(read_json_lines(metrics));
  metrics_.add(std::make_unique<JsonLinesSink>(metrics, at));
  metrics_.add(std::make_unique<TensorBoardSink>(config_.run.output / "tensorboard", at));
  metrics_.add(std::make_unique<LiveLine>("grpo", resume_at, config_.steps));
}

void GrpoRun::resume() {
  std::optional<Progress> saved =
      load_latest(config_.run.output, *engine_, session_.compiler->client());
  if (!saved) {
    log_line("nothing to resume in " + config_.run.output.string() + ": starting anew");
    return;
  }
  *state_ = State::from(saved->state, config_.run.output.string());
  state_version_ = engine_->parameters()->version();
  saved_step_ = state_->step;
  saved_micro_ = saved->micro_steps.value_or(-1);
  if (saved->micro_steps) {
    const std::string where = checkpoint::latest_checkpoint(config_.run.output).path.string();
    work_ = work_from(saved->state.value("work", Json()), saved->tensors, engine_->shape(),
                      *saved->micro_steps, where);
    if (work_->done >= static_cast<int64_t>(work_->batches.size())) state_version_.reset();
    if (engine_->accumulator().empty()) set_mark(*work_, *engine_);
  }
  log_line("resumed after " + progress_text(state_->step, work_ ? work_->done : 0));
}

// Nothing when the run is to stop.
std::optional<Evaluation> GrpoRun::evaluate_split(const std::vector<Example>& examples,
                                                  const RunClock& clock) {
  PhaseClock::Scope phase(phases_, "evaluate");
  return evaluate(*rollouts_, examples, config_.step.max_new_tokens,
                  [&] { return clock.stops(StopPoint::evaluation); });
}

// Whether it was finished. What it found is kept with the first checkpoint.
bool GrpoRun::first_evaluation(const RunClock& clock) {
  if (!splits_.held_out.empty()) {
    std::optional<Evaluation> e = evaluate_split(splits_.held_out, clock);
    if (!e) return false;
    state_->before = e->accuracy;
    for (size_t i = 0; i < std::min(kShownReplies, e->replies.size()); ++i) {
      state_->replies_before.push_back(e->replies[i]);
      state_->right_before.push_back(e->right[i] != 0);
    }
    log_line(fmt::format("before training: {:.1f}% of {} held-out problems", 100 * e->accuracy,
                         splits_.held_out.size()));
  }
  if (splits_.validation.empty()) return true;
  std::optional<Evaluation> e = evaluate_split(splits_.validation, clock);
  if (e) state_->best_accuracy = e->accuracy;
  return e.has_value();
}

// Nothing when the run is to stop.
std::vector<RolloutGroup> GrpoRun::sample(int64_t number, const RunClock& clock) {
  PhaseClock::Scope phase(phases_, "sample");
  std::vector<const Example*> prompts =
      prompts_of_step(splits_.train, number, config_.prompts_per_step, config_.run.seed);
  RolloutSpec spec{config_.group_size, config_.step.temperature, config_.step.max_new_tokens,
                   config_.run.seed, static_cast<uint64_t>(number)};
  spec.interrupted = [&] { return clock.stops(StopPoint::sampling); };
  std::vector<RolloutGroup> groups = rollouts_->sample(prompts, spec);
  int64_t tokens = 0;
  for (const RolloutGroup& g : groups) {
    for (const Rollout& r : g.rollouts) tokens += static_cast<int64_t>(r.ids.size());
  }
  phases_.add_tokens("sample", tokens);
  phases_.add_tokens("step", tokens);
  return groups;
}

// Whether the step was finished and reported: it is not when the run is to stop before.
bool GrpoRun::step(int64_t number, RunClock& clock) {
  GrpoStepResult result;
  {
    PhaseClock::Scope whole(phases_, "step");
    if (!work_) {
      std::vector<RolloutGroup> groups = sample(number, clock);
      if (groups.empty()) return false;
      work_ = step_->begin(number, std::move(groups));
    }
    bool finished = step_->train(*work_, [&] {
      if (clock.save_is_due()) {
        save(number);
        clock.saved();
      }
      return clock.stops(StopPoint::micro_step);
    });
    if (!finished) return false;
    GrpoWork work = std::move(*work_);
    work_.reset();
    result = step_->finish(std::move(work));
  }
  state_->step = number + 1;
  state_version_ = engine_->parameters()->version();
  state_->unreported = std::move(result.metrics);
  return report_step(clock);
}

// Evaluates after the last step where that is due, and writes its metrics. False when the run is
// to stop before that is done.
bool GrpoRun::report_step(const RunClock& clock) {
  StepMetrics metrics = *state_->unreported;
  const int64_t step = state_->step;
  bool better = false;
  if (config_.eval_every > 0 && step % config_.eval_every == 0 && !splits_.validation.empty()) {
    std::optional<Evaluation> e;
    with_evaluated(config_.run, *engine_, [&] { e = evaluate_split(splits_.validation, clock); });
    if (!e) return false;
    metrics.add("eval/accuracy", e->accuracy);
    better = e->accuracy > state_->best_accuracy;
    if (better) state_->best_accuracy = e->accuracy;
    if (better) state_->best_step = step;
  }
  phases_.report_step(metrics);
  add_memory(metrics);
  metrics.add("compiles", static_cast<double>(session_.compiler->counters().compiles));
  metrics_.write(std::move(metrics));
  state_->unreported.reset();
  if (better) save(step);
  return true;
}

// A step with its report, or what is left of one. False when the run is to stop before that is
// done.
bool GrpoRun::go_on(RunClock& clock) {
  if (state_->unreported) return report_step(clock);
  return !clock.stops(StopPoint::step) && step(state_->step, clock);
}

void GrpoRun::save(int64_t step) {
  PhaseClock::Scope phase(phases_, "save");
  State saved = *state_;
  saved.seconds += clock_.seconds();
  Progress progress;
  progress.step = step;
  progress.best_step = state_->best_step;
  progress.state = saved.json();
  if (work_) {
    progress.micro_steps = work_->done;
    progress.state["work"] = to_json(*work_, engine_->shape());
    progress.tensors = tensors_of(*work_);
  }
  progress.config = config_.effective;
  progress.counts = counts_;
  save_run(*writer_, session_, *engine_, config_.run.seed, progress);
  saved_step_ = step;
  saved_micro_ = progress.micro_steps.value_or(-1);
}

// Goes back to the last state that can be saved: after a step, or in it after an update or before
// the first micro-step. False when there is none. An update that was given up left every bit as it
// was before it; one that failed half-way left nothing.
bool GrpoRun::back_to_whole(const Error& error) {
  if (engine_->parameters() == nullptr) return false;
  const uint64_t version = engine_->parameters()->version();
  if (!work_) return state_->step > 0 && version == state_version_;
  const bool given_up = error.id() == "optim.skipped_in_a_row";
  if (!work_->mark || (version != work_->mark->version && !given_up)) return false;
  engine_->drop_sums();
  work_->done = work_->mark->done;
  work_->sums = work_->mark->sums;
  counts_ = work_->mark->counts;
  // The same completions would end the same way.
  const bool drop = given_up && work_->done == 0;
  if (drop) work_.reset();
  return !drop || state_->step > 0;
}

// What was done is not lost to a reward that fails or an optimiser that gives up.
void GrpoRun::save_before_failure(const Error& error) {
  if (!back_to_whole(error)) return;
  const bool saved = saved_step_ == state_->step && saved_micro_ >= (work_ ? work_->done : -1);
  if (saved) return;
  const std::string what = progress_text(state_->step, work_ ? work_->done : 0);
  try {
    save(state_->step);
    writer_->wait();
    log_line("the state after " + what + " is saved; --resume goes on");
  } catch (const Error& e) {
    log_warning("the state after " + what + " is lost: " + e.what());
  }
}

void GrpoRun::train_steps(RunClock& clock, GrpoSummary& summary) {
  while (state_->unreported || state_->step < config_.steps) {
    const int64_t number = state_->step + (state_->unreported ? 0 : 1);
    try {
      summary.interrupted = !go_on(clock);
    } catch (Error& e) {
      e.add_context(
          fmt::format("in step {} of the run in {}", number, config_.run.output.string()));
      save_before_failure(e);
      throw;
    }
    if (summary.interrupted) return;
    bool due = config_.run.save_every > 0 && state_->step % config_.run.save_every == 0;
    if ((due || clock.save_is_due()) && saved_step_ != state_->step) {
      save(state_->step);
      clock.saved();
    }
  }
}

GrpoSummary GrpoRun::run(const Interrupted& interrupted) {
  report_memory(engine_->prepare(true), session_.compiler->client()->platform_name(),
                machine_memory(), saving_bytes(config_.run, *engine_));
  RunClock clock(config_.run, interrupted);
  GrpoSummary summary;
  if (state_->step == 0 && !work_) summary.interrupted = !first_evaluation(clock);
  if (!summary.interrupted) train_steps(clock, summary);
  if (work_ || (state_->step > 0 && saved_step_ != state_->step)) save(state_->step);
  writer_->wait();
  summary.steps = state_->step;
  summary.best_step = state_->best_step;
  summary.before = state_->before;
  summary.held_out = static_cast<int64_t>(splits_.held_out.size());
  if (!summary.interrupted) summary.interrupted = !finish(clock, summary);
  return summary;
}

// What is kept is what did best on the validation problems; without any it is what came last.
// False when the run is to stop before it is evaluated and exported.
bool GrpoRun::finish(const RunClock& clock, GrpoSummary& summary) {
  const bool last =
      splits_.validation.empty() || config_.eval_every == 0 || summary.best_step == state_->step;
  bool done = false;
  if (last) {
    summary.best_step = state_->step;
    with_evaluated(config_.run, *engine_, [&] { done = evaluate_and_export(clock, summary); });
  } else {
    restore_evaluated(config_.run, session_, *engine_, summary.best_step);
    done = evaluate_and_export(clock, summary);
  }
  if (!done) return false;
  summary.seconds = state_->seconds + clock_.seconds();
  summary.peak_gib = static_cast<double>(memory_use().peak_bytes) / double{1 << 30};
  write_outputs(summary);
  return true;
}

bool GrpoRun::evaluate_and_export(const RunClock& clock, GrpoSummary& summary) {
  if (!splits_.held_out.empty()) {
    std::optional<Evaluation> e = evaluate_split(splits_.held_out, clock);
    if (!e) return false;
    summary.after = e->accuracy;
    for (size_t i = 0; i < std::min(kShownReplies, e->replies.size()); ++i) {
      state_->replies_after.push_back(e->replies[i]);
      state_->right_after.push_back(e->right[i] != 0);
    }
  }
  PhaseClock::Scope phase(phases_, "export");
  return export_run(config_.run, session_, *engine_, clock);
}

void GrpoRun::write_outputs(const GrpoSummary& s) {
  write_report(config_.run.output / "report.html", report(s));
  Json json{{"before", s.before},     {"after", s.after},         {"held_out", s.held_out},
            {"steps", s.steps},       {"best_step", s.best_step}, {"seconds", s.seconds},
            {"peak_gib", s.peak_gib}, {"seed", config_.run.seed}};
  for (const PhaseTotals& p : phases_.totals()) json["phases"][p.name] = p.seconds;
  write_file_atomically(config_.run.output / "summary.json", json.dump(2) + "\n");
}

Report GrpoRun::report(const GrpoSummary& s) const {
  Report r;
  std::string task = config_.data.empty() ? config_.task.name : config_.data.filename().string();
  r.title = "GRPO: " + config_.session.model.filename().string() + " on " + task;
  if (s.held_out > 0) {
    r.headline = fmt::format("{:.1f}% → {:.1f}%", 100 * s.before, 100 * s.after);
    r.summary =
        fmt::format("accuracy on {} held-out problems, greedy, before and after", s.held_out);
  }
  r.figures = {{"Steps", std::to_string(s.steps)},
               {"Kept step", std::to_string(s.best_step)},
               {"Time", duration_text(s.seconds)},
               {"Peak memory", fmt::format("{:.1f} GiB", s.peak_gib)}};
  r.charts = charts_of(metrics_.history());
  for (size_t i = 0; i < state_->replies_after.size(); ++i) {
    const Example& e = splits_.held_out[i];
    r.samples.push_back({e.messages.back().content, e.answer, state_->replies_before[i],
                         state_->replies_after[i], state_->right_before[i],
                         state_->right_after[i]});
  }
  for (const PhaseTotals& p : phases_.totals()) {
    if (p.name != "step") r.phases.push_back(p);
  }
  r.files = {{"Checkpoints", "checkpoints/"},
             {"Hugging Face directory", "export/"},
             {"Metrics", "metrics.jsonl, tensorboard/"}};
  r.configuration = facts_of(config_.effective);
  r.machine = machine_facts();
  return r;
}

}  // namespace strata::rl
