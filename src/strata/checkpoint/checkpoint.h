// Checkpoints: a training run's whole state as one directory, written in one piece or not at all.
//
// On disk every tensor has its unstacked name, whatever form the model runs in, so a checkpoint of
// a scanned model loads into an unscanned one and the reverse, whatever the stack axis. The
// directory is a Hugging Face model directory too: whoever only wants the weights opens it as one.
// Format: docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "strata/checkpoint/checkpoint_index.h"
#include "strata/checkpoint/tree_reader.h"
#include "strata/runtime/array.h"
#include "strata/sharding/manifest.h"
#include "strata/sharding/mesh.h"

namespace strata::checkpoint {

// Called as bytes are written, with `done` of `total`; what it throws stops the writing.
using ProgressFn = std::function<void(uint64_t done, uint64_t total)>;

// What is saved; everything is borrowed.
struct Contents {
  const sharding::Manifest* model = nullptr;
  ArrayRefs parameters;  // one a slot of the manifest
  // Optimiser state: names are "role/<parameter>" as in optim::SlotSpec, dims those of the array
  // with the parameter's layer dim; `kind` is not read.
  std::vector<sharding::Slot> slot_types = {};
  ArrayRefs slots = {};
  RunState run = {};
  // config.json and the tokenizer's files are copied from here.
  std::filesystem::path model_directory;
  // What stands in config.json instead; null = the directory's.
  Json config = {};
};

struct SaveOptions {
  uint64_t max_shard_bytes = 5'000'000'000;
  ProgressFn progress = {};
};

// Writes the directory `path`, which must not exist: under a temporary name beside it, synced,
// then renamed. The caller waits. Host memory grows by one bucket, the largest array that holds
// several layers and whose layer dim is not the first, and twice kPieceBytes. Until the rename
// nothing is visible under `path`; a failure leaves nothing behind, and a crash only the temporary
// directory. Throws invalid_argument (checkpoint.tree, checkpoint.layers), already_exists
// (file.exists), not_found (checkpoint.no_config), resource_exhausted on a full disk, and as the
// file functions.
void save_checkpoint(const std::filesystem::path& path, const Contents& contents,
                     const SaveOptions& options = {});

// A copy in host memory of what is to be saved, so that the arrays may change while it is written.
// Immutable; safe to share between threads.
class Snapshot {
 public:
  // Copies the arrays; returns when they may be changed. Throws as save_checkpoint does on contents
  // that do not fit, resource_exhausted (checkpoint.snapshot_memory).
  explicit Snapshot(const Contents& contents);

  const RunState& run() const { return run_; }
  // Host memory that it holds.
  uint64_t bytes() const { return bytes_; }

 private:
  friend void save_checkpoint(const std::filesystem::path&, const Snapshot&, const SaveOptions&);
  using Copies = std::vector<std::span<const std::byte>>;
  Copies copy(std::span<const sharding::Slot> slots, const ArrayRefs& arrays, std::byte*& next);

  sharding::Manifest model_;
  std::vector<sharding::Slot> slot_types_;
  RunState run_;
  std::filesystem::path model_directory_;
  Json config_;
  uint64_t bytes_ = 0;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  Copies parameters_, slots_;
};

// What a snapshot of such a state holds.
uint64_t snapshot_bytes(const sharding::Manifest& model,
                        std::span<const sharding::Slot> slot_types);

// As above, of a copy; any thread may call it. Memory grows by twice kPieceBytes.
void save_checkpoint(const std::filesystem::path& path, const Snapshot& snapshot,
                     const SaveOptions& options = {});

struct RestoreOptions {
  // The devices, and the sizes of the mesh axes that the wanted dims name. It need not be the mesh
  // that saved.
  sharding::Mesh mesh = {};
  // Whether each tensor's SHA-256 is compared before it is used.
  bool verify = true;
};

struct Restored {
  std::vector<runtime::Array> parameters;  // one a slot of the wanted manifest
  std::vector<runtime::Array> slots;       // one a wanted slot type
  RunState run;
};

// Reads a checkpoint into the form that `model` and `slot_types` describe. Total and transactional:
// parameters and slots must be exactly the wanted ones, of their dims and element types; all
// differences are one error (weights.mismatch, first 20 of each kind) before anything is allocated,
// and a failure leaves nothing allocated. Throws as CheckpointFiles and
// sharding::check_layout, data_loss (checkpoint.hash).
Restored load_checkpoint(const std::filesystem::path& path, const sharding::Manifest& model,
                         std::span<const sharding::Slot> slot_types,
                         const runtime::ClientPtr& client, const RestoreOptions& options = {});

}  // namespace strata::checkpoint
