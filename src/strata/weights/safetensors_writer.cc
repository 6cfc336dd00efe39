#include "strata/weights/safetensors_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"

namespace strata::weights {
namespace {

constexpr uint64_t kAlignment = 64;

// Returns `path`, once the names are found lawful.
const std::filesystem::path& check_names(const std::filesystem::path& path,
                                         std::span<const TensorSpec> specs) {
  std::set<std::string_view> seen;
  for (const TensorSpec& spec : specs) {
    const char* fault = !is_utf8(spec.name)              ? "a name that is not UTF-8"
                        : spec.name == "__metadata__"    ? "the reserved name __metadata__"
                        : !seen.insert(spec.name).second ? "the name twice"
                                                         : nullptr;
    if (fault != nullptr) {
      fail({.id = "weights.write_name",
            .where = fmt::format("{}, tensor '{}'", path.string(), spec.name),
            .expected = "unique UTF-8 names",
            .got = fault});
    }
  }
  return path;
}

std::string header_of(const std::vector<TensorSpec>& specs, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const TensorSpec& spec : specs) {
    uint64_t end = at + spec.byte_size();
    // Bypasses the ordered map's linear search for the key: the names are known to be unique.
    header.get_ref<Json::object_t&>().emplace_back(spec.name,
                                                   Json{{"dtype", safetensors_name(spec.dtype)},
                                                        {"shape", spec.dims},
                                                        {"data_offsets", {at, end}}});
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + kAlignment - 1) / kAlignment * kAlignment - 8, ' ');
  return text;
}

}  // namespace

std::vector<TensorSpec> aligned_order(std::vector<TensorSpec> specs) {
  auto group = [](const TensorSpec& s) {
    return s.byte_size() % kAlignment == 0 ? 0 : 16 - static_cast<int>(size_of(s.dtype));
  };
  std::stable_sort(specs.begin(), specs.end(),
                   [&](const TensorSpec& a, const TensorSpec& b) { return group(a) < group(b); });
  return specs;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<TensorSpec> specs, const Metadata& metadata)
    : path_(check_names(path, specs)), file_(path) {
  std::string header = header_of(specs, metadata);
  uint64_t length = header.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(header);
  for (const TensorSpec& spec : specs) remaining_ += spec.byte_size();
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > remaining_) {
    fail({.id = "weights.write_excess",
          .where = path_.string(),
          .expected = fmt::format("at most the {} bytes still declared", remaining_),
          .got = fmt::format("{}", bytes.size())});
  }
  file_.write(bytes);
  remaining_ -= bytes.size();
}

void SafetensorsWriter::finish() {
  require(remaining_ == 0, {.id = "weights.write_short",
                            .where = path_.string(),
                            .expected = "every declared byte",
                            .got = fmt::format("{} bytes fewer", remaining_)});
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata) {
  std::map<std::string, const HostTensor*> by_name;
  std::vector<TensorSpec> specs;
  for (const NamedTensor& t : tensors) {
    by_name[t.name] = t.tensor;
    specs.push_back({t.name, t.tensor->dtype(), t.tensor->dims()});
  }
  specs = aligned_order(std::move(specs));
  std::filesystem::path temporary = path;
  temporary += fmt::format(".tmp-{}", ::getpid());
  {
    SafetensorsWriter writer(temporary, specs, metadata);
    for (const TensorSpec& spec : specs) {
      const HostTensor& t = *by_name.at(spec.name);
      writer.write({t.bytes(), t.byte_size()});
    }
    writer.finish();
  }
  replace_file(temporary, path);
}

ShardedWriter::ShardedWriter(const std::filesystem::path& directory, std::vector<TensorSpec> specs,
                             ShardOptions options)
    : directory_(check_names(directory, specs)),
      options_(std::move(options)),
      specs_(aligned_order(std::move(specs))) {
  uint64_t held = 0;
  shards_.push_back({});
  for (size_t i = 0; i < specs_.size(); ++i) {
    uint64_t bytes = specs_[i].byte_size();
    if (held > 0 && held + bytes > options_.max_shard_bytes) {
      shards_.push_back({"", i, i});
      held = 0;
    }
    held += bytes;
    shards_.back().end = i + 1;
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].file = shards_.size() == 1
                          ? "model.safetensors"
                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
  }
  open_next();
}

void ShardedWriter::open_next() {
  const Shard& shard = shards_[next_++];
  auto first = specs_.begin() + static_cast<ptrdiff_t>(shard.begin);
  auto last = specs_.begin() + static_cast<ptrdiff_t>(shard.end);
  current_ = std::make_unique<SafetensorsWriter>(
      directory_ / shard.file, std::vector<TensorSpec>(first, last), options_.metadata);
}

void ShardedWriter::write(std::span<const std::byte> bytes) {
  if (!bytes.empty()) skip_full_shards();
  current_->write(bytes);
}

void ShardedWriter::skip_full_shards() {
  while (current_->remaining() == 0 && next_ < shards_.size()) {
    current_->finish();
    open_next();
  }
}

void ShardedWriter::finish() {
  skip_full_shards();
  current_->finish();
  if (shards_.size() > 1) write_index();
}

void ShardedWriter::write_index() const {
  std::map<std::string, std::string> map;
  uint64_t total = 0;
  for (const Shard& shard : shards_) {
    for (size_t i = shard.begin; i < shard.end; ++i) {
      map[specs_[i].name] = shard.file;
      total += specs_[i].byte_size();
    }
  }
  Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_file_atomically(directory_ / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace strata::weights
