#include "strata/checkpoint/checkpoint_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <tuple>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/checkpoint/directory.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "checkpoints";
constexpr const char* kManifestFile = "manifest.json";
constexpr std::string_view kPrefix = "step-";
// What stands behind a checkpoint's name while it is being written or removed.
constexpr std::string_view kTemporary = ".tmp-";
// What is set aside: it has a checkpoint's name but not the manifest, which is written last.
constexpr std::string_view kIncomplete = ".incomplete";

std::string name_of(int64_t step, std::optional<int64_t> micro_steps) {
  std::string name = fmt::format("{}{:08}", kPrefix, step);
  return micro_steps ? fmt::format("{}+{}", name, *micro_steps) : name;
}

struct Parsed {
  int64_t step = -1;
  std::optional<int64_t> micro_steps;
};

// A finished checkpoint's name.
std::optional<Parsed> parse_name(const std::string& name) {
  if (name.compare(0, kPrefix.size(), kPrefix) != 0) return std::nullopt;
  Parsed p;
  const char* end = name.data() + name.size();
  auto read = std::from_chars(name.data() + kPrefix.size(), end, p.step);
  if (read.ec != std::errc() || p.step < 0) return std::nullopt;
  if (read.ptr != end && *read.ptr == '+') {
    read = std::from_chars(read.ptr + 1, end, p.micro_steps.emplace(-1));
    if (read.ec != std::errc() || *p.micro_steps < 0) return std::nullopt;
  }
  // The one spelling of each number, so that no state has two names.
  if (name != name_of(p.step, p.micro_steps)) return std::nullopt;
  return p;
}

// Nothing of it is removed: someone may know what it is.
void set_aside(const fs::path& path) {
  fs::path aside = path;
  aside += kIncomplete;
  std::error_code ec;
  for (int i = 2; fs::exists(aside, ec); ++i) {
    aside = path;
    aside += fmt::format("{}-{}", kIncomplete, i);
  }
  replace_file(path, aside);
  log_warning(fmt::format("{} has no {}: now {}", path.string(), kManifestFile, aside.string()));
}

// Hides the directory first, so that a crash in between leaves no half of a checkpoint.
void remove_checkpoint(const fs::path& path) {
  fs::path hidden = path;
  hidden += std::string(kTemporary) + "removed";
  remove_directory(hidden);
  replace_file(path, hidden);
  remove_directory(hidden);
}

bool is_complete(const fs::path& path) {
  std::error_code ec;
  return fs::exists(path / kManifestFile, ec);
}

fs::path created(const fs::path& directory) {
  make_directories(directory);
  sync_directory(directory.parent_path());  // so that a crash does not take the whole folder
  return directory;
}

}  // namespace

fs::path checkpoint_path(const fs::path& run_directory, int64_t step,
                         std::optional<int64_t> micro_steps) {
  return run_directory / kFolder / name_of(step, micro_steps);
}

std::vector<StoredCheckpoint> find_checkpoints(const fs::path& run_directory) {
  std::vector<StoredCheckpoint> found;
  std::error_code ec;
  for (const fs::path& path : list_directory(run_directory / kFolder)) {
    auto name = parse_name(path.filename().string());
    if (!name || !fs::is_directory(path, ec)) continue;
    if (is_complete(path)) {
      found.push_back({name->step, path, name->micro_steps});
    } else {
      log_warning(fmt::format("{} is no checkpoint: it has no {}", path.string(), kManifestFile));
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.micro_steps) < std::tie(b.step, b.micro_steps);
  });
  return found;
}

StoredCheckpoint latest_checkpoint(const fs::path& run_directory) {
  std::vector<StoredCheckpoint> found = find_checkpoints(run_directory);
  require(!found.empty(), {.id = "checkpoint.no_latest",
                           .where = run_directory.string(),
                           .expected = fmt::format("a run with {}/{}…", kFolder, kPrefix),
                           .got = "none",
                           .cure = "Start it without resuming, or name the right directory",
                           .code = Code::not_found});
  return found.back();
}

CheckpointStore::CheckpointStore(fs::path run_directory, Retention retention)
    : run_directory_(std::move(run_directory)),
      retention_(std::move(retention)),
      lock_(created(run_directory_ / kFolder)) {
  require(retention_.keep_last >= 0 && retention_.keep_every >= 0,
          {.id = "checkpoint.retention",
           .where = "keep_last, keep_every",
           .expected = "numbers >= 0",
           .got = fmt::format("{}, {}", retention_.keep_last, retention_.keep_every)});
  remove_unfinished();
}

bool CheckpointStore::has(int64_t step, std::optional<int64_t> micro_steps) const {
  std::error_code ec;
  return fs::exists(checkpoint_path(run_directory_, step, micro_steps), ec);
}

fs::path CheckpointStore::place_for(const RunState& state) const {
  const int64_t micro_steps = state.micro_steps.value_or(0);
  require(state.step >= 0 && micro_steps >= 0,
          {.id = "checkpoint.step",
           .where = run_directory_.string(),
           .expected = "a step >= 0",
           .got = fmt::format("{}", std::min(state.step, micro_steps)),
           .code = Code::out_of_range});
  const fs::path path = checkpoint_path(run_directory_, state.step, state.micro_steps);
  require(!has(state.step, state.micro_steps),
          {.id = "checkpoint.exists",
           .where = path.string(),
           .expected = "a step without a checkpoint",
           .got = "one that has been saved before",
           .cure = "Resume from the latest checkpoint, or use another directory",
           .code = Code::already_exists});
  return path;
}

fs::path CheckpointStore::save(const Contents& contents, const SaveOptions& options) {
  fs::path path = place_for(contents.run);
  save_checkpoint(path, contents, options);
  prune();
  return path;
}

fs::path CheckpointStore::save(const Snapshot& snapshot, const SaveOptions& options) {
  fs::path path = place_for(snapshot.run());
  save_checkpoint(path, snapshot, options);
  prune();
  return path;
}

void CheckpointStore::prune() const {
  std::vector<StoredCheckpoint> all = find_checkpoints(run_directory_);
  // What was done in the middle of a step is also in whatever came later.
  for (size_t i = all.size(); i-- > 1;) {
    if (!all[i - 1].micro_steps) continue;
    remove_checkpoint(all[i - 1].path);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  if (retention_.keep_last == 0) return;
  auto last = static_cast<size_t>(retention_.keep_last);
  for (size_t i = 0; i + last < all.size(); ++i) {
    const int64_t step = all[i].step;
    bool stays = retention_.keep.count(step) > 0 ||
                 (retention_.keep_every > 0 && step % retention_.keep_every == 0);
    if (!stays) remove_checkpoint(all[i].path);
  }
}

void CheckpointStore::remove_unfinished() const {
  for (const fs::path& path : list_directory(run_directory_ / kFolder)) {
    std::string name = path.filename().string();
    if (parse_name(name) && fs::is_directory(path) && !is_complete(path)) set_aside(path);
    size_t end = name.find(kTemporary);
    if (end != std::string::npos && parse_name(name.substr(0, end))) remove_directory(path);
  }
}

}  // namespace strata::checkpoint
