#include "strata/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/hash.h"
#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/directory.h"
#include "strata/checkpoint/model_files.h"
#include "strata/runtime/array_builder.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using sharding::Slot;
using weights::TensorView;
using weights::Wanted;

// Bytes written of all there are.
struct Written {
  const ProgressFn& progress;
  uint64_t total = 0;
  uint64_t done = 0;

  void add(uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  }
};

// Writes a tree to `root`/`folder` and lists its tensors in the order of its slots.
std::vector<TensorEntry> write_tree(const fs::path& root, const char* folder, TreeReader& tree,
                                    uint64_t max_shard_bytes, Written& written) {
  const fs::path directory = root / folder;
  weights::ShardedWriter writer(directory, tree.specs(), {.max_shard_bytes = max_shard_bytes});
  std::unordered_map<std::string, std::string> digests;
  for (const weights::TensorSpec& spec : writer.order()) {
    std::span<const std::byte> bytes = tree.read(spec.name);
    digests[spec.name] = sha256(bytes);
    writer.write(bytes);
    written.add(bytes.size());
  }
  writer.finish();
  sync_directory(directory);
  // Reading the headers back tells which shard took which tensor.
  auto source = weights::open_source(directory);
  const std::vector<fs::path> files = source->files();
  std::vector<TensorEntry> entries;
  for (const weights::TensorSpec& spec : tree.specs()) {
    const fs::path& file = files[source->get(spec.name).file];
    entries.push_back({spec.name, spec.dtype, spec.dims,
                       file.lexically_relative(root).generic_string(), digests.at(spec.name)});
  }
  return entries;
}

void fill(const fs::path& directory, const Contents& contents, TreeReader& parameters,
          TreeReader& slots, const SaveOptions& options) {
  CheckpointIndex index;
  index.model = *contents.model;
  index.run = contents.run;
  Written written{options.progress, parameters.bytes() + slots.bytes()};
  for (const std::string& name : copy_model_files(contents.model_directory, directory)) {
    index.files.push_back({name, sha256_of_file(directory / name)});
    written.add(0);
  }
  index.parameters = write_tree(directory, "", parameters, options.max_shard_bytes, written);
  if (!slots.specs().empty()) {
    make_directories(directory / kSlotsDirectory);
    index.slots = write_tree(directory, kSlotsDirectory, slots, options.max_shard_bytes, written);
  }
  put_text(directory / "manifest.json", index.to_json().dump(1) + "\n");
  written.add(0);
}

std::vector<Wanted> wanted_of(std::span<const Slot> slots) {
  std::vector<Wanted> out;
  for (const Slot& slot : slots) {
    for (Wanted& w : members_of(slot)) {
      w.dtype = slot.type.dtype;
      out.push_back(std::move(w));
    }
  }
  return out;
}

std::vector<runtime::Array> load_tree(std::span<const Slot> slots, const CheckpointFiles& files,
                                      std::span<const runtime::SpecPtr> specs,
                                      const runtime::ClientPtr& client, bool verify) {
  std::vector<runtime::Array> out;
  for (const Slot& slot : slots) {
    runtime::ArrayBuilder builder(client, specs[out.size()]);
    int64_t k = 0;
    for (const Wanted& w : members_of(slot)) {
      const TensorView& tensor = files.get(w.name);
      if (verify) files.verify(tensor);
      builder.write(layer_box(slot, k++), tensor.bytes);
      files.release(tensor);
    }
    out.push_back(builder.finish());
  }
  return out;
}

}  // namespace

void save_checkpoint(const fs::path& path, const Contents& contents, const SaveOptions& options) {
  TreeReader parameters(contents.model->slots(), contents.parameters);
  TreeReader slots(contents.slot_types, contents.slots);
  write_directory_atomically(path, [&](const fs::path& temporary) {
    fill(temporary, contents, parameters, slots, options);
  });
}

Restored load_checkpoint(const fs::path& path, const sharding::Manifest& model,
                         std::span<const Slot> slot_types, const runtime::ClientPtr& client,
                         const RestoreOptions& options) {
  CheckpointFiles files(path);
  std::vector<Wanted> wanted = wanted_of(model.slots());
  for (Wanted& w : wanted_of(slot_types)) wanted.push_back(std::move(w));
  weights::check_total(files, wanted);
  const auto parameters = specs_of(model.slots(), options.mesh);
  const auto slots = specs_of(slot_types, options.mesh);
  Restored out;
  out.parameters = load_tree(model.slots(), files, parameters, client, options.verify);
  out.slots = load_tree(slot_types, files, slots, client, options.verify);
  out.run = files.index().run;
  return out;
}

}  // namespace strata::checkpoint
