#include "strata/checkpoint/checkpoint_files.h"

#include <fmt/format.h>

#include <utility>

#include "strata/base/error.h"
#include "strata/base/hash.h"
#include "strata/base/strings.h"

namespace strata::checkpoint {

namespace fs = std::filesystem;
using weights::TensorView;

CheckpointFiles::CheckpointFiles(const fs::path& checkpoint)
    : path_(checkpoint), index_(read_index(checkpoint)) {
  add(weights::open_source(checkpoint));
  if (!index_.slots.empty()) add(weights::open_source(checkpoint / kSlotsDirectory));
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
  for (const auto* list : {&index_.parameters, &index_.slots}) {
    for (const TensorEntry& entry : *list) entries_[entry.name] = &entry;
  }
  compare();
}

void CheckpointFiles::add(std::unique_ptr<TensorSource> source) {
  size_t first_file = files().size();
  for (TensorView view : source->tensors()) {
    view.file += first_file;
    tensors_.push_back(std::move(view));
  }
  parts_.push_back({std::move(source), first_file});
}

void CheckpointFiles::compare() const {
  const std::vector<fs::path> paths = files();
  auto contradict = [&](const std::string& name, std::string expected, std::string got) {
    fail({.id = "checkpoint.contradiction",
          .where = fmt::format("{}, tensor '{}'", path_.string(), name),
          .expected = std::move(expected),
          .got = std::move(got),
          .code = Code::data_loss});
  };
  for (const auto* list : {&index_.parameters, &index_.slots}) {
    for (const TensorEntry& entry : *list) {
      const TensorView* view = find(entry.name);
      if (view == nullptr) contradict(entry.name, "the tensor that manifest.json lists", "none");
      if (entries_.at(entry.name) != &entry) contradict(entry.name, "the name once", "it twice");
      std::string wanted = shape_text(entry.dtype, entry.dims) + " in " + entry.file;
      std::string file = paths[view->file].lexically_relative(path_).generic_string();
      std::string got = shape_text(view->dtype, view->dims) + " in " + file;
      if (wanted != got) contradict(entry.name, wanted, got);
    }
  }
  for (const TensorView& view : tensors_) {
    if (entries_.count(view.name) == 0) {
      contradict(view.name, "a tensor that manifest.json lists", "one that it does not");
    }
  }
}

std::vector<fs::path> CheckpointFiles::files() const {
  std::vector<fs::path> out;
  for (const Part& part : parts_) {
    for (fs::path& file : part.source->files()) out.push_back(std::move(file));
  }
  return out;
}

const TensorView* CheckpointFiles::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void CheckpointFiles::release(const TensorView& tensor) const {
  for (const Part& part : parts_) {
    const TensorView* own = part.source->find(tensor.name);
    if (own != nullptr && own->bytes.data() == tensor.bytes.data()) part.source->release(*own);
  }
}

void CheckpointFiles::verify(const TensorView& tensor) const {
  const std::string& expected = entries_.at(tensor.name)->sha256;
  std::string got = sha256(tensor.bytes);
  if (got == expected) return;
  fail({.id = "checkpoint.hash",
        .where = fmt::format("{}, tensor '{}'", files()[tensor.file].string(), tensor.name),
        .expected = "bytes with SHA-256 " + expected,
        .got = got,
        .cure = "The file was damaged after it was written: use another checkpoint",
        .code = Code::data_loss});
}

void CheckpointFiles::verify() const {
  for (const TensorView& tensor : tensors_) {
    verify(tensor);
    release(tensor);
  }
  for (const FileEntry& file : index_.files) {
    std::string got = sha256_of_file(path_ / file.name);
    require(got == file.sha256, {.id = "checkpoint.hash",
                                 .where = (path_ / file.name).string(),
                                 .expected = "bytes with SHA-256 " + file.sha256,
                                 .got = got,
                                 .code = Code::data_loss});
  }
}

}  // namespace strata::checkpoint
