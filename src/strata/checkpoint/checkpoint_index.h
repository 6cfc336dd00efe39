// CheckpointIndex: manifest.json of a checkpoint, which tells what the directory holds.
// The format is described in docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/json.h"
#include "strata/sharding/manifest.h"
#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {

// What a run needs besides its arrays to go on exactly where it stopped. This room gives none of
// it a meaning but `step`.
struct RunState {
  int64_t step = 0;  // of the run; names the checkpoint
  // In the middle of step `step` + 1: its micro-steps that are done; they are part of the name.
  // Nothing between two steps.
  std::optional<int64_t> micro_steps;
  std::map<std::string, int64_t> counts;  // counters of the optimiser, by name
  Json loader = Json::object();           // position of the data loader
  std::vector<uint32_t> rng;              // words of the root seed
  Json extra = Json::object();            // metrics, configuration, …; JSON knows no NaN

  friend bool operator==(const RunState&, const RunState&) = default;
};

// One tensor, by its unstacked name ("model.layers.3.mlp.up_proj.weight", "adam.m/model…").
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;
  std::string file;    // relative to the checkpoint, with '/'
  std::string sha256;  // of its bytes: row-major, little-endian

  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

// One file that was copied from the model's directory.
struct FileEntry {
  std::string name;
  std::string sha256;

  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct CheckpointIndex {
  // Version of the format; it changes when an old reader would misread a new checkpoint.
  static constexpr int64_t kVersion = 1;

  sharding::Manifest model;  // the form it ran in; the tensors' form on disk does not depend on it
  std::vector<TensorEntry> parameters;
  std::vector<TensorEntry> slots;  // of the optimiser
  std::vector<FileEntry> files;
  RunState run;

  Json to_json() const;
  // Throws, naming `where` and the entry: data_loss (checkpoint.index) on a missing or unknown key
  // or a wrong type, unimplemented (checkpoint.version), and as sharding::Manifest::from_json.
  static CheckpointIndex from_json(const Json& json, const std::string& where);
};

// "manifest.json" of a checkpoint. Throws not_found (checkpoint.none) naming the directory when
// there is none, and as read_json and from_json.
CheckpointIndex read_index(const std::filesystem::path& checkpoint);

}  // namespace strata::checkpoint
