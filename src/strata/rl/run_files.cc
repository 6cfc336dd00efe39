#include "strata/rl/run_files.h"

#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/checkpoint/export_hf.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

std::vector<sharding::Slot> slot_types(const optim::UpdatePlan& plan) {
  std::vector<sharding::Slot> out;
  for (const optim::SlotSpec& s : plan.slots()) {
    out.push_back({s.name, sharding::Kind::buffer, s.type});
  }
  return out;
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

void check_output(const RunConfig& run) {
  if (run.resume) return;
  bool used = fs::exists(run.output / "metrics.jsonl") || fs::exists(run.output / "checkpoints");
  require(!used, {.id = "rl.run_exists",
                  .where = run.output.string(),
                  .expected = "an output directory without a run",
                  .got = "one with metrics or checkpoints",
                  .cure = "Resume it (--resume) or choose another run.output",
                  .code = Code::already_exists});
}

void save_run(const RunConfig& run, const Session& session, const Engine& engine, int64_t step,
              int64_t best_step, const Json& state) {
  checkpoint::CheckpointStore store(run.output, {.keep_last = run.keep_last, .keep = {best_step}});
  if (store.has(step)) return;
  checkpoint::Contents contents;
  contents.model = &session.structure->manifest();
  contents.parameters = checkpoint::refs_of(*engine.parameters());
  contents.slot_types = slot_types(engine.plan());
  contents.slots = checkpoint::refs_of(engine.slots());
  contents.run.step = step;
  contents.run.counts = counts_map(engine.counts());
  contents.run.rng = {static_cast<uint32_t>(run.seed), static_cast<uint32_t>(run.seed >> 32)};
  contents.run.extra = state;
  contents.model_directory = session.options.model;
  store.save(contents);
}

std::optional<Json> load_latest(const fs::path& run, Engine& engine,
                                const runtime::ClientPtr& client) {
  std::vector<checkpoint::StoredCheckpoint> all = checkpoint::find_checkpoints(run);
  if (all.empty()) return std::nullopt;
  const fs::path& path = all.back().path;
  checkpoint::Restored r = checkpoint::load_checkpoint(path, engine.structure().manifest(),
                                                       slot_types(engine.plan()), client);
  engine.restore(std::move(r.parameters), std::move(r.slots), counts_of(r.run.counts, path));
  return r.run.extra;
}

void restore_parameters(const RunConfig& run, const Session& session, Engine& engine,
                        int64_t step) {
  if (step == 0) {
    engine.restore_parameters(session.load_parameters());
    return;
  }
  auto source = weights::open_source(checkpoint::checkpoint_path(run.output, step));
  engine.restore_parameters(checkpoint::load_parameters(session.structure->manifest(), *source,
                                                        session.compiler->client(),
                                                        {.ignorable = session.model->ignorable()}));
}

void export_run(const RunConfig& run, const Session& session, const Engine& engine,
                fs::path target) {
  if (target.empty()) target = run.output / "export";
  fs::path old = target;
  old += ".old";
  // The new directory is complete before the old one goes.
  fs::remove_all(old);
  if (fs::exists(target)) fs::rename(target, old);
  checkpoint::export_hf(target, session.structure->manifest(),
                        checkpoint::refs_of(*engine.parameters()), session.options.model);
  fs::remove_all(old);
}

}  // namespace strata::rl
