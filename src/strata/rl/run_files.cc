#include "strata/rl/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/checkpoint/average_source.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/checkpoint/directory.h"
#include "strata/checkpoint/export_hf.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/rl/adapters.h"
#include "strata/rl/saved_sums.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

void add_types(std::vector<sharding::Slot>& out, const std::vector<optim::SlotSpec>& slots) {
  for (const optim::SlotSpec& s : slots) out.push_back({s.name, sharding::Kind::buffer, s.type});
}

std::vector<sharding::Slot> slot_types(const optim::UpdatePlan& plan) {
  std::vector<sharding::Slot> out;
  add_types(out, plan.slots());
  return out;
}

constexpr std::string_view kStepTensor = "step.";

// The slots of a checkpoint that are tensors of a step under way.
std::vector<sharding::Slot> step_tensor_types(const checkpoint::CheckpointIndex& index) {
  std::vector<sharding::Slot> out;
  for (const checkpoint::TensorEntry& t : index.slots) {
    if (!t.name.starts_with(kStepTensor)) continue;
    out.push_back({t.name, sharding::Kind::buffer, sharding::plain_type(t.dtype, t.dims)});
  }
  return out;
}

// An average cannot begin in the middle of a run: it would be that of other steps than it says.
void check_average(const checkpoint::CheckpointIndex& index, const optim::UpdatePlan& plan,
                   const fs::path& path) {
  const bool saved = std::any_of(index.slots.begin(), index.slots.end(), [](const auto& t) {
    return t.name.starts_with(checkpoint::kAverageRole);
  });
  require(saved == plan.keeps_average(),
          {.id = "rl.average_resume",
           .where = path.string(),
           .expected = saved ? "a run that keeps a weight average, as this checkpoint has one"
                             : "a run that keeps no weight average, as this checkpoint has none",
           .got = saved ? "optimizer.ema_decay = 0" : "optimizer.ema_decay > 0",
           .cure = saved ? "Set optimizer.ema_decay as the run began (its value may change), or "
                           "begin anew from `strata convert CHECKPOINT DIR --to hf --average`"
                         : "Leave optimizer.ema_decay out, or begin a new run with this checkpoint "
                           "as model.path",
           .code = Code::failed_precondition});
}

std::map<std::string, int64_t> counts_map(const optim::StepCounts& c) {
  return {{"count", c.count},
          {"steps_skipped", c.steps_skipped},
          {"steps_empty", c.steps_empty},
          {"skipped_in_a_row", c.skipped_in_a_row}};
}

optim::StepCounts counts_of(const std::map<std::string, int64_t>& m, const fs::path& where) {
  auto value = [&](const char* name) {
    auto it = m.find(name);
    require(it != m.end(), {.id = "rl.saved_counts",
                            .where = where.string(),
                            .expected = std::string("counter '") + name + "'",
                            .got = "none",
                            .code = Code::data_loss});
    return it->second;
  };
  return {value("count"), value("steps_skipped"), value("steps_empty"), value("skipped_in_a_row")};
}

}  // namespace

void check_output(const RunConfig& run, const fs::path& export_to) {
  std::error_code ec;
  // What a run leaves that ended before its first step does not count.
  uintmax_t bytes = fs::file_size(run.output / "metrics.jsonl", ec);
  bool used = (!ec && bytes > 0) || !checkpoint::find_checkpoints(run.output).empty();
  require(run.resume || !used, {.id = "rl.run_exists",
                                .where = run.output.string(),
                                .expected = "an output directory without a run",
                                .got = "one with metrics or checkpoints",
                                .cure = "Resume it (--resume) or choose another run.output",
                                .code = Code::already_exists});
  if (export_to.empty()) return;
  require(!fs::exists(export_to, ec), {.id = "rl.export_exists",
                                       .where = export_to.string(),
                                       .expected = "an export directory that does not exist yet",
                                       .got = "one that does",
                                       .cure = "Choose another name or remove it",
                                       .code = Code::already_exists});
}

std::unique_ptr<DirectoryLock> open_output(const RunConfig& run) {
  checkpoint::make_directories(run.output);
  return std::make_unique<DirectoryLock>(run.output);
}

std::string progress_text(int64_t step, int64_t micro_steps) {
  if (micro_steps == 0) return fmt::format("step {}", step);
  return fmt::format("step {} and {} micro-step{}", step, micro_steps, micro_steps == 1 ? "" : "s");
}

uint64_t saving_bytes(const RunConfig& run, const Engine& engine) {
  if (run.save_mode == checkpoint::SaveMode::stream) return 0;
  return checkpoint::snapshot_bytes(engine.structure().manifest(), slot_types(engine.plan()));
}

void report_memory(const std::vector<runtime::MemoryReport>& reports, const std::string& platform,
                   uint64_t machine_bytes, uint64_t saving) {
  if (saving > 0) {
    log_line(
        fmt::format("saving: {} of host memory, the copy of the state that is written while "
                    "training goes on (run.save_mode = \"stream\" needs none)",
                    bytes_text(saving)));
  }
  for (const runtime::MemoryReport& r : reports) {
    log_line(r.text());
    const uint64_t needed = static_cast<uint64_t>(r.total()) + saving;
    bool fits = platform != "cpu" || machine_bytes == 0 || needed <= machine_bytes;
    require(fits,
            {.id = "rl.memory",
             .where = r.program,
             .expected = "a program that needs at most this machine's " + bytes_text(machine_bytes),
             .got = bytes_text(needed),
             .cure = "Lower train.rows, train.row_tokens, train.scored_tokens or train.logit_chunk",
             .code = Code::resource_exhausted});
  }
}

std::unique_ptr<checkpoint::CheckpointWriter> open_writer(const RunConfig& run) {
  return std::make_unique<checkpoint::CheckpointWriter>(
      run.output, run.save_mode,
      checkpoint::Retention{.keep_last = run.keep_last, .keep_every = run.keep_every});
}

namespace {

// `tensors` keeps what the contents refer to.
void add_step_under_way(checkpoint::Contents& contents, const Engine& engine,
                        const runtime::ClientPtr& client, const Progress& progress,
                        std::vector<runtime::Array>& tensors) {
  if (!engine.accumulator().empty()) {
    add_types(contents.slot_types, engine.plan().accumulator());
    for (const runtime::Array& a : engine.accumulator()) contents.slots.push_back(&a);
  }
  for (const StepTensor& t : progress.tensors) {
    tensors.push_back(runtime::Array::put(client, t.value, engine.structure().mesh()));
    contents.slot_types.push_back({std::string(kStepTensor) + t.name, sharding::Kind::buffer,
                                   sharding::plain_type(t.value.dtype(), t.value.dims())});
  }
  for (const runtime::Array& a : tensors) contents.slots.push_back(&a);
}

// The first trained parameter with a number that is not finite.
std::string not_finite(const Engine& engine) {
  for (const optim::Parameter& p : engine.plan().parameters()) {
    const HostTensor host = engine.parameters()->at(p.name).get();
    auto values = host.data<float>();
    if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
      return p.name;
    }
  }
  return "no parameter any more";
}

void check_finite(Engine& engine, const Progress& progress) {
  if (engine.finite()) return;
  fail(
      {.id = "rl.not_finite",
       .where = "the state after " + progress_text(progress.step, progress.micro_steps.value_or(0)),
       .expected = "finite parameters",
       .got = "others in '" + not_finite(engine) + "'",
       .cure = "It is not saved. Lower optimizer.lr or optimizer.weight_decay, and go on from the "
               "checkpoint before with --resume",
       .code = Code::aborted});
}

}  // namespace

void save_run(checkpoint::CheckpointWriter& writer, const Session& session, Engine& engine,
              uint64_t seed, const Progress& progress) {
  if (writer.has(progress.step, progress.micro_steps)) return;
  check_finite(engine, progress);
  checkpoint::Contents contents;
  contents.model = &session.structure->manifest();
  contents.parameters = checkpoint::refs_of(*engine.parameters());
  contents.slot_types = slot_types(engine.plan());
  contents.slots = checkpoint::refs_of(engine.slots());
  std::vector<runtime::Array> tensors;
  if (progress.micro_steps) {
    add_step_under_way(contents, engine, session.compiler->client(), progress, tensors);
  }
  contents.run.step = progress.step;
  contents.run.micro_steps = progress.micro_steps;
  contents.run.counts = counts_map(progress.counts.value_or(engine.counts()));
  contents.run.loader = progress.loader;
  contents.run.rng = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  contents.run.extra = {{"state", progress.state}, {"config", progress.config}};
  contents.model_directory = session.options.model;
  contents.config = checkpoint_config(session);
  writer.save(contents, progress.best_step);
}

std::optional<Progress> load_latest(const fs::path& run, Engine& engine,
                                    const runtime::ClientPtr& client) {
  std::vector<checkpoint::StoredCheckpoint> all = checkpoint::find_checkpoints(run);
  if (all.empty()) return std::nullopt;
  const fs::path& path = all.back().path;
  check_transforms(path, engine.model());
  std::vector<sharding::Slot> types = slot_types(engine.plan());
  const size_t own = types.size();
  const checkpoint::CheckpointIndex index = checkpoint::read_index(path);
  check_average(index, engine.plan(), path);
  for (sharding::Slot& s : saved_sum_types(index, engine.plan())) types.push_back(std::move(s));
  const size_t sums = types.size();
  for (sharding::Slot& s : step_tensor_types(index)) types.push_back(std::move(s));
  checkpoint::Restored r = checkpoint::load_checkpoint(path, engine.structure().manifest(), types,
                                                       client, {.mesh = engine.structure().mesh()});
  Progress progress;
  progress.step = r.run.step;
  progress.micro_steps = r.run.micro_steps;
  progress.loader = r.run.loader;
  for (size_t i = sums; i < types.size(); ++i) {
    progress.tensors.push_back({types[i].name.substr(kStepTensor.size()), r.slots[i].get()});
  }
  for (const char* key : {"state", "config"}) {
    bool there = r.run.extra.is_object() && r.run.extra.contains(key);
    require(there, {.id = "rl.saved_state",
                    .where = path.string(),
                    .expected = std::string("the key 'run.extra.") + key + "' in manifest.json",
                    .got = "none",
                    .code = Code::data_loss});
  }
  progress.state = r.run.extra["state"];
  progress.config = r.run.extra["config"];
  auto begin = std::make_move_iterator(r.slots.begin());
  auto at = [&](size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
  std::vector<runtime::Array> slots{begin, at(own)};
  std::vector<runtime::Array> accumulator =
      planned_sums({at(own), at(sums)}, engine.plan(), engine.structure().mesh(), client);
  engine.restore(std::move(r.parameters), std::move(slots), counts_of(r.run.counts, path),
                 std::move(accumulator));
  return progress;
}

bool uses_average(const RunConfig& run, const Engine& engine) {
  return run.use_average && engine.plan().keeps_average();
}

void with_evaluated(const RunConfig& run, Engine& engine, const std::function<void()>& action) {
  uses_average(run, engine) ? engine.with_average(action) : action();
}

void restore_evaluated(const RunConfig& run, const Session& session, Engine& engine, int64_t step) {
  if (step == 0) {
    engine.restore_parameters(session.load_parameters());
    return;
  }
  auto source = checkpoint::open_weights(checkpoint::checkpoint_path(run.output, step),
                                         uses_average(run, engine));
  engine.restore_parameters(checkpoint::load_parameters(
      session.structure->manifest(), *source, session.compiler->client(),
      {.mesh = session.structure->mesh(), .ignorable = session.model->ignorable()}));
}

namespace {

// The new directory is complete before the old one goes.
void replace_directory(const fs::path& place, const std::function<void(const fs::path&)>& write) {
  const fs::path fresh = place.string() + ".new", old = place.string() + ".old";
  checkpoint::remove_directory(fresh);
  write(fresh);
  checkpoint::remove_directory(old);
  std::error_code ec;
  if (fs::exists(place, ec)) replace_file(place, old);
  replace_file(fresh, place);
  checkpoint::remove_directory(old);
}

}  // namespace

bool export_run(const RunConfig& run, const Session& session, const Engine& engine,
                const RunClock& clock, const fs::path& target) {
  struct Stopped {};
  const sharding::Manifest& manifest = session.structure->manifest();
  checkpoint::ArrayRefs parameters = checkpoint::refs_of(*engine.parameters());
  checkpoint::ExportOptions options = export_options(session);
  options.progress = [&](uint64_t, uint64_t) {
    if (clock.stops(StopPoint::evaluation)) throw Stopped();
  };
  auto write = [&](const fs::path& path) {
    checkpoint::export_hf(path, manifest, parameters, session.options.model, options);
  };
  Json peft = peft_config(*session.model, session.options.model.string());
  if (!peft.is_null()) {
    replace_directory(run.output / "adapter", [&](const fs::path& path) {
      checkpoint::export_adapter(path, manifest, parameters, peft);
    });
  }
  try {
    target.empty() ? replace_directory(run.output / "export", write) : write(target);
  } catch (const Stopped&) {
    return false;
  }
  return true;
}

}  // namespace strata::rl
