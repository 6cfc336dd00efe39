// CheckpointWriter: saving while training goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string_view>

#include "strata/checkpoint/checkpoint_store.h"

namespace strata::checkpoint {

enum class SaveMode : uint8_t {
  // The state is copied to host memory, and a thread writes the copy while training goes on.
  snapshot,
  // The caller waits until all is written; memory grows by one bucket only.
  stream,
};

// "snapshot", "stream".
std::string_view name_of(SaveMode mode);
// Throws invalid_argument (checkpoint.save_mode) listing the modes.
SaveMode parse_save_mode(std::string_view name);

// Saves the checkpoints of one run. At most one is being written at a time: `save` waits for the
// one before. A failed writing is thrown by the next call of save or wait. Use from one thread.
class CheckpointWriter {
 public:
  // The directory is locked from the first save on.
  explicit CheckpointWriter(std::filesystem::path run_directory, SaveMode mode = SaveMode::snapshot,
                            Retention retention = {});
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Waits; what failed is logged, as it cannot be thrown.
  ~CheckpointWriter();

  // Whether the state has a checkpoint or is being written.
  bool has(int64_t step, std::optional<int64_t> micro_steps = {}) const;
  // Returns when the arrays may be changed. `keep`, a step, stays for ever from now on, and the one
  // kept before no longer (-1 = none). Throws what an earlier writing failed with, and as
  // CheckpointStore and Snapshot; in stream mode as CheckpointStore::save.
  void save(const Contents& contents, int64_t keep = -1, const SaveOptions& options = {});
  // Whether one is being written now.
  bool under_way() const;
  // Waits until the checkpoint under way is durable. Throws what it failed with.
  void wait();

 private:
  std::filesystem::path run_directory_;
  SaveMode mode_;
  Retention retention_;
  std::optional<CheckpointStore> store_;
  int64_t kept_ = -1;
  RunState state_under_way_;
  std::future<void> under_way_;
};

}  // namespace strata::checkpoint
