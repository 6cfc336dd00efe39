// CheckpointStore: the checkpoints of one run, RUN/checkpoints/step-00000012 and so on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "strata/base/file.h"
#include "strata/checkpoint/checkpoint.h"

namespace strata::checkpoint {

struct StoredCheckpoint {
  int64_t step = 0;
  std::filesystem::path path;
  // As RunState::micro_steps: set where it was saved in the middle of the next step.
  std::optional<int64_t> micro_steps = {};
};

// The checkpoints of a run in the order of their steps, and behind each those in the middle of the
// next one. Names decide, by number: neither their alphabetical order nor a time stamp counts, and
// unfinished or half-removed ones have other names. A directory with such a name but without a
// manifest is none; a warning says so.
// A run without any gives an empty list. Throws as directory.h.
std::vector<StoredCheckpoint> find_checkpoints(const std::filesystem::path& run_directory);
// The furthest. Throws not_found (checkpoint.no_latest) naming the run.
StoredCheckpoint latest_checkpoint(const std::filesystem::path& run_directory);
// RUN/checkpoints/step-00000012, or step-00000012+3 after three micro-steps more.
std::filesystem::path checkpoint_path(const std::filesystem::path& run_directory, int64_t step,
                                      std::optional<int64_t> micro_steps = {});

// Which checkpoints stay when a new one has been written: the newest `keep_last` (0 = all), those
// whose step is a multiple of `keep_every` (0 = none), and the steps of `keep`. One in the middle
// of a step stays as long as it is the newest.
struct Retention {
  int64_t keep_last = 0;
  int64_t keep_every = 0;
  std::set<int64_t> keep = {};
};

// The writer of a run's checkpoints. While it lives no other process (nor another store of this
// one) can write to the run's checkpoints. Use from one thread.
class CheckpointStore {
 public:
  // Creates RUN/checkpoints, removes what a crash left unfinished there, and renames directories
  // without a manifest (to ….incomplete), so that their steps can be saved. Throws
  // failed_precondition (file.locked), invalid_argument (checkpoint.retention) on a negative
  // number, and as directory.h.
  explicit CheckpointStore(std::filesystem::path run_directory, Retention retention = {});

  // Whether there is one of that state.
  bool has(int64_t step, std::optional<int64_t> micro_steps = {}) const;
  // Where the state's checkpoint will be. Throws already_exists (checkpoint.exists) when it has
  // one, out_of_range (checkpoint.step) on a negative number.
  std::filesystem::path place_for(const RunState& state) const;
  // Saves under the name of contents.run, then removes what retention gives up. At no moment is an
  // earlier checkpoint gone before the new one is durable. Throws as place_for and save_checkpoint.
  std::filesystem::path save(const Contents& contents, const SaveOptions& options = {});
  std::filesystem::path save(const Snapshot& snapshot, const SaveOptions& options = {});
  // Makes a step stay (the best one so far), or no longer.
  void keep(int64_t step) { retention_.keep.insert(step); }
  void release(int64_t step) { retention_.keep.erase(step); }

 private:
  void remove_unfinished() const;
  void prune() const;

  std::filesystem::path run_directory_;
  Retention retention_;
  DirectoryLock lock_;
};

}  // namespace strata::checkpoint
