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
};

struct SaveOptions {
  uint64_t max_shard_bytes = 5'000'000'000;
  ProgressFn progress = {};
};

// Writes the directory `path`, which must not exist: under a temporary name beside it, synced,
// then renamed. The caller waits; memory grows by the largest array on the host (and one layer of
// it where its layer dim is not the first). Until the rename nothing is visible under `path`; a
// failure leaves nothing behind, and a crash only the temporary directory.
// Throws invalid_argument (checkpoint.tree, checkpoint.layers), already_exists (file.exists),
// not_found (checkpoint.no_config), resource_exhausted on a full disk, and as the file functions.
void save_checkpoint(const std::filesystem::path& path, const Contents& contents,
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
