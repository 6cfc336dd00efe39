#include "strata/weights/hf_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"

namespace strata::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kListed = 20;

// Shard file -> the tensors that the index expects in it.
using WeightMap = std::map<std::string, std::set<std::string>>;

std::string first_of(const std::vector<std::string>& names) {
  std::vector<std::string> few(names.begin(),
                               names.begin() + std::min<ptrdiff_t>(kListed, std::ssize(names)));
  return join(few, ", ") + (names.size() > kListed ? ", …" : "");
}

bool is_plain_shard_name(const std::string& name) {
  return name.find_first_of("/\\") == std::string::npos && name.find('\0') == std::string::npos &&
         name.size() > 12 && name.substr(name.size() - 12) == ".safetensors";
}

WeightMap read_index(const fs::path& path) {
  std::string where = path.string();
  Json index = parse_json(read_file(path), where, DuplicateKeys::refuse);
  bool shaped =
      index.is_object() && index.contains("weight_map") && index["weight_map"].is_object();
  require(shaped, {.id = "weights.index_shape",
                   .where = where,
                   .expected = "an object with an object 'weight_map'",
                   .got = index.dump().substr(0, 60),
                   .code = Code::data_loss});
  WeightMap map;
  for (const auto& item : index["weight_map"].items()) {
    require(item.value().is_string(), {.id = "weights.index_entry",
                                       .where = where + ", tensor '" + item.key() + "'",
                                       .expected = "the name of a shard",
                                       .got = item.value().dump().substr(0, 60),
                                       .code = Code::data_loss});
    auto shard = item.value().get<std::string>();
    require(is_plain_shard_name(shard),
            {.id = "weights.index_path",
             .where = where + ", tensor '" + item.key() + "'",
             .expected = "a plain file name ending in .safetensors",
             .got = "'" + shard + "'",
             .cure = "Put the shard into the directory and name it without a path"});
    map[shard].insert(item.key());
  }
  require(!map.empty(), {.id = "weights.index_empty",
                         .where = where,
                         .expected = "a weight_map with tensors",
                         .got = "an empty one",
                         .code = Code::data_loss});
  return map;
}

void check_shards_exist(const fs::path& directory, const WeightMap& map) {
  std::vector<std::string> missing;
  for (const auto& [shard, names] : map) {
    std::error_code ec;
    if (!fs::exists(directory / shard, ec)) {
      missing.push_back(
          fmt::format("{} ({} tensors, among them {})", shard, names.size(), *names.begin()));
    }
  }
  require(missing.empty(), {.id = "weights.shard_missing",
                            .where = directory.string(),
                            .expected = fmt::format("the {} shards of {}", map.size(), kIndex),
                            .got = "no file " + first_of(missing),
                            .cure = "Fetch the missing files",
                            .code = Code::not_found});
}

// The index and the shard must hold the same names.
void check_shard_names(const fs::path& directory, const SafetensorsFile& shard,
                       const std::string& file, const std::set<std::string>& expected) {
  std::vector<std::string> absent, unlisted;
  for (const std::string& name : expected) {
    if (shard.find(name) == nullptr) absent.push_back(name);
  }
  for (const TensorView& t : shard.tensors()) {
    if (expected.count(t.name) == 0) unlisted.push_back(t.name);
  }
  require(absent.empty(), {.id = "weights.index_absent",
                           .where = (directory / file).string(),
                           .expected = fmt::format("the tensors that {} places there", kIndex),
                           .got = fmt::format("{} absent: {}", absent.size(), first_of(absent)),
                           .code = Code::data_loss});
  require(unlisted.empty(),
          {.id = "weights.index_unlisted",
           .where = (directory / file).string(),
           .expected = fmt::format("only tensors that {} places there", kIndex),
           .got = fmt::format("{} others: {}", unlisted.size(), first_of(unlisted)),
           .cure = "Add them to the index or remove them from the shard",
           .code = Code::data_loss});
}

[[noreturn]] void fail_no_weights(const fs::path& path, const std::vector<std::string>& present) {
  std::string cure;
  for (const std::string& name : present) {
    if (name.ends_with(".gguf")) {
      cure = fmt::format("Convert it: strata import-gguf {} DIR", (path / name).string());
    }
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth")) {
      cure = "Pickled weights are not read: convert " + name + " to safetensors";
    }
  }
  fail({.id = "weights.none",
        .where = path.string(),
        .expected = fmt::format("{} or {}", kSingle, kIndex),
        .got = present.empty() ? "an empty directory" : "only " + first_of(present),
        .cure = cure,
        .code = Code::not_found});
}

std::vector<std::string> file_names(const fs::path& path) {
  std::error_code ec;
  fs::directory_iterator it(path, ec);
  require(!ec,
          {.id = "weights.directory",
           .where = path.string(),
           .expected = "a model directory",
           .got = ec.message(),
           .code = ec == std::errc::permission_denied ? Code::permission_denied : Code::not_found});
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : it) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// File names of the weights, each with the tensors expected in it (none stated for a single file).
WeightMap find_weights(const fs::path& path) {
  std::vector<std::string> names = file_names(path);
  auto has = [&](const char* name) { return std::binary_search(names.begin(), names.end(), name); };
  require(!(has(kSingle) && has(kIndex)),
          {.id = "weights.both_forms",
           .where = path.string(),
           .expected = fmt::format("either {} or {}", kSingle, kIndex),
           .got = "both, and they may hold different weights",
           .cure = "Remove the stale one"});
  if (!has(kSingle) && !has(kIndex)) fail_no_weights(path, names);
  WeightMap map = has(kIndex) ? read_index(path / kIndex) : WeightMap{{kSingle, {}}};
  check_shards_exist(path, map);
  std::vector<std::string> strays;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors") && map.count(name) == 0) strays.push_back(name);
  }
  if (!strays.empty()) {
    log_warning(fmt::format("{}: ignoring {} (not named by the {})", path.string(),
                            first_of(strays), has(kIndex) ? "index" : "single-file layout"));
  }
  return map;
}

}  // namespace

HfDirectory::HfDirectory(const fs::path& path) : path_(path) {
  WeightMap map = find_weights(path);
  for (const auto& [file, expected] : map) {
    shards_.push_back(std::make_unique<SafetensorsFile>(path / file));
    if (!expected.empty()) check_shard_names(path, *shards_.back(), file, expected);
    for (TensorView t : shards_.back()->tensors()) {
      t.file = shards_.size() - 1;
      tensors_.push_back(std::move(t));
    }
  }
  // The index is a map, so a name that two shards hold was refused as unlisted in one of them.
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
}

std::vector<fs::path> HfDirectory::files() const {
  std::vector<fs::path> files;
  for (const auto& shard : shards_) files.push_back(shard->path());
  return files;
}

const TensorView* HfDirectory::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

void HfDirectory::release(const TensorView& tensor) const { shards_[tensor.file]->release(tensor); }

fs::path config_path(const fs::path& directory) { return directory / "config.json"; }
fs::path generation_config_path(const fs::path& directory) {
  return directory / "generation_config.json";
}

}  // namespace strata::weights
