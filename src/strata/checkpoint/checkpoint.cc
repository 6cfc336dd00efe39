#include "strata/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <future>
#include <new>
#include <unordered_map>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/hash.h"
#include "strata/base/strings.h"
#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/directory.h"
#include "strata/checkpoint/model_files.h"
#include "strata/checkpoint/tied_names.h"
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

// Hashing bytes and moving them take about as long as one another, so large pieces do both at once.
void at_once(size_t bytes, const std::function<void()>& move, const std::function<void()>& hash) {
  constexpr size_t kLarge = size_t{1} << 20;
  if (bytes < kLarge) {
    hash();
    move();
    return;
  }
  auto hashed = std::async(std::launch::async, hash);
  move();
  hashed.get();
}

// Writes a tree to `root`/`folder` and lists its tensors in the order of its slots.
std::vector<TensorEntry> write_tree(const fs::path& root, const char* folder, TreeReader& tree,
                                    uint64_t max_shard_bytes, Written& written) {
  const fs::path directory = root / folder;
  weights::ShardedWriter writer(directory, tree.specs(), {.max_shard_bytes = max_shard_bytes});
  std::unordered_map<std::string, std::string> digests;
  for (const weights::TensorSpec& spec : writer.order()) {
    Sha256 hash;
    tree.read(spec.name, [&](std::span<const std::byte> piece) {
      at_once(
          piece.size(), [&] { writer.write(piece); }, [&] { hash.update(piece); });
    });
    digests[spec.name] = hash.hex();
    written.add(spec.byte_size());
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

// What is written beside the tensors; borrowed.
struct Rest {
  const sharding::Manifest& model;
  const RunState& run;
  const fs::path& model_directory;
  const Json& config;  // null = the directory's
};

// Copies what lies beside the weights; returns the names.
std::vector<std::string> write_files(const fs::path& directory, const Rest& rest) {
  if (rest.config.is_null()) return copy_model_files(rest.model_directory, directory);
  std::vector<std::string> names =
      copy_model_files(rest.model_directory, directory, {"config.json"});
  put_text(directory / "config.json", rest.config.dump(2) + "\n");
  names.insert(names.begin(), "config.json");
  return names;
}

void fill(const fs::path& directory, const Rest& rest, TreeReader& parameters, TreeReader& slots,
          const SaveOptions& options) {
  CheckpointIndex index;
  index.model = rest.model;
  index.run = rest.run;
  Written written{options.progress, parameters.bytes() + slots.bytes()};
  for (const std::string& name : write_files(directory, rest)) {
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

void write(const fs::path& path, const Rest& rest, TreeReader parameters, TreeReader slots,
           const SaveOptions& options) {
  write_directory_atomically(
      path, [&](const fs::path& temporary) { fill(temporary, rest, parameters, slots, options); });
}

uint64_t bytes_of(std::span<const Slot> slots) {
  uint64_t total = 0;
  for (const Slot& slot : slots) total += static_cast<uint64_t>(slot.type.bytes());
  return total;
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
  std::vector<const TensorView*> tensors;
  for (const Slot& slot : slots) {
    for (const Wanted& w : members_of(slot)) tensors.push_back(&files.get(w.name));
  }
  std::vector<runtime::Array> out;
  size_t next = 0;
  for (const Slot& slot : slots) {
    runtime::ArrayBuilder builder(client, specs[out.size()]);
    const auto layers = static_cast<int64_t>(members_of(slot).size());
    for (int64_t k = 0; k < layers; ++k) {
      const TensorView& tensor = *tensors[next++];
      if (next < tensors.size()) will_read(tensors[next]->bytes);
      // What turns out to be damaged is dropped with all that was loaded.
      at_once(
          tensor.bytes.size(), [&] { builder.write(layer_box(slot, k), tensor.bytes); },
          [&] {
            if (verify) files.verify(tensor);
          });
      files.release(tensor);
    }
    out.push_back(builder.finish());
  }
  return out;
}

}  // namespace

void save_checkpoint(const fs::path& path, const Contents& contents, const SaveOptions& options) {
  write(path, {*contents.model, contents.run, contents.model_directory, contents.config},
        TreeReader(contents.model->slots(), contents.parameters),
        TreeReader(contents.slot_types, contents.slots), options);
}

// As large as the pages that its memory is asked to have.
constexpr std::align_val_t kSnapshotPage{size_t{2} << 20};

void Snapshot::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kSnapshotPage);
}

uint64_t snapshot_bytes(const sharding::Manifest& model, std::span<const Slot> slot_types) {
  return bytes_of(model.slots()) + bytes_of(slot_types);
}

Snapshot::Snapshot(const Contents& contents)
    : model_(*contents.model),
      slot_types_(contents.slot_types),
      run_(contents.run),
      model_directory_(contents.model_directory),
      config_(contents.config),
      bytes_(snapshot_bytes(model_, slot_types_)) {
  // These find what does not fit.
  TreeReader(model_.slots(), contents.parameters);
  TreeReader(slot_types_, contents.slots);
  memory_.reset(static_cast<std::byte*>(
      ::operator new(std::max<uint64_t>(bytes_, 1), kSnapshotPage, std::nothrow)));
  require(memory_ != nullptr, {.id = "checkpoint.snapshot_memory",
                               .where = fmt::format("snapshot of step {}", run_.step),
                               .expected = bytes_text(bytes_) + " of host memory",
                               .got = "no memory",
                               .cure = "Save without a snapshot (run.save_mode = \"stream\")",
                               .code = Code::resource_exhausted});
  // Large pages: most of a first copy's time is spent on making the pages.
  ::madvise(memory_.get(), bytes_, MADV_HUGEPAGE);
  std::byte* next = memory_.get();
  parameters_ = copy(model_.slots(), contents.parameters, next);
  slots_ = copy(slot_types_, contents.slots, next);
}

Snapshot::Copies Snapshot::copy(std::span<const Slot> slots, const ArrayRefs& arrays,
                                std::byte*& next) {
  BoxReader reader;
  Copies copies;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Dims dims = slots[i].type.sizes();
    std::span<std::byte> out(next, static_cast<size_t>(slots[i].type.bytes()));
    reader.read(*arrays[i], {Dims(dims.size(), 0), dims}, out);
    copies.push_back(out);
    next += out.size();
  }
  return copies;
}

void save_checkpoint(const fs::path& path, const Snapshot& s, const SaveOptions& options) {
  write(path, {s.model_, s.run_, s.model_directory_, s.config_},
        TreeReader(s.model_.slots(), s.parameters_), TreeReader(s.slot_types_, s.slots_), options);
}

Restored load_checkpoint(const fs::path& path, const sharding::Manifest& model,
                         std::span<const Slot> slot_types, const runtime::ClientPtr& client,
                         const RestoreOptions& options) {
  CheckpointFiles files(path);
  std::vector<Wanted> wanted = wanted_of(model.slots());
  for (Wanted& w : wanted_of(slot_types)) wanted.push_back(std::move(w));
  weights::check_total(files, wanted, with_aliases({}, model));
  check_tied(files, model);
  const auto parameters = specs_of(model.slots(), options.mesh);
  const auto slots = specs_of(slot_types, options.mesh);
  Restored out;
  out.parameters = load_tree(model.slots(), files, parameters, client, options.verify);
  out.slots = load_tree(slot_types, files, slots, client, options.verify);
  out.run = files.index().run;
  return out;
}

}  // namespace strata::checkpoint
