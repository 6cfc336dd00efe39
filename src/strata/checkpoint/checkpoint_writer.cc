#include "strata/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata::checkpoint {
namespace {

// Training goes first: this thread, and those it starts, use what it leaves. Without the right to
// ask for that, writing goes on as it is.
void yield_to_training() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19); }

}  // namespace

std::string_view name_of(SaveMode mode) {
  return mode == SaveMode::snapshot ? "snapshot" : "stream";
}

SaveMode parse_save_mode(std::string_view name) {
  for (SaveMode mode : {SaveMode::snapshot, SaveMode::stream}) {
    if (name == name_of(mode)) return mode;
  }
  fail({.id = "checkpoint.save_mode",
        .where = "saving mode",
        .expected = "snapshot or stream",
        .got = "'" + std::string(name) + "'"});
}

CheckpointWriter::CheckpointWriter(std::filesystem::path run_directory, SaveMode mode,
                                   Retention retention)
    : run_directory_(std::move(run_directory)), mode_(mode), retention_(std::move(retention)) {}

CheckpointWriter::~CheckpointWriter() {
  try {
    wait();
  } catch (const std::exception& e) {
    log_warning(fmt::format("a checkpoint is lost: {}", e.what()));
  }
}

bool CheckpointWriter::has(int64_t step, std::optional<int64_t> micro_steps) const {
  bool same = state_under_way_.step == step && state_under_way_.micro_steps == micro_steps;
  if (under_way_.valid() && same) return true;
  std::error_code ec;
  return std::filesystem::exists(checkpoint_path(run_directory_, step, micro_steps), ec);
}

void CheckpointWriter::save(const Contents& contents, int64_t keep, const SaveOptions& options) {
  wait();
  if (!store_) store_.emplace(run_directory_, retention_);
  if (kept_ >= 0) store_->release(kept_);
  if (keep >= 0) store_->keep(keep);
  kept_ = keep;
  if (mode_ == SaveMode::stream) {
    store_->save(contents, options);
    return;
  }
  store_->place_for(contents.run);
  auto snapshot = std::make_unique<Snapshot>(contents);
  state_under_way_ = snapshot->run();
  under_way_ = std::async(std::launch::async,
                          [store = &*store_, held = std::move(snapshot), options]() mutable {
                            yield_to_training();
                            // The memory goes as soon as all is written.
                            const std::unique_ptr<Snapshot> taken = std::move(held);
                            store->save(*taken, options);
                          });
}

bool CheckpointWriter::under_way() const {
  return under_way_.valid() &&
         under_way_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void CheckpointWriter::wait() {
  if (!under_way_.valid()) return;
  try {
    under_way_.get();
  } catch (Error& e) {
    e.add_context(
        fmt::format("while the checkpoint of step {} was written", state_under_way_.step));
    throw;
  }
}

}  // namespace strata::checkpoint
