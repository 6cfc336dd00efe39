#include "strata/runtime/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/hash.h"
#include "strata/base/log.h"

namespace strata::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "STRATAC1";
constexpr std::string_view kSuffix = ".bin";
constexpr size_t kDigestSize = 64;
constexpr size_t kHeaderSize = 8 + kDigestSize + 8;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string encode_length(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 255);
  return bytes;
}

// What is wrong with an entry's bytes; empty when nothing is.
std::string damage(std::string_view bytes) {
  if (bytes.size() < kHeaderSize) return "it ends inside its header";
  if (bytes.substr(0, kMagic.size()) != kMagic) return "its first bytes are not \"STRATAC1\"";
  std::string_view payload = bytes.substr(kHeaderSize);
  if (bytes.substr(kMagic.size() + kDigestSize, 8) != encode_length(payload.size())) {
    return "its length is not the one it was written with";
  }
  if (bytes.substr(kMagic.size(), kDigestSize) != sha256(payload)) return "its digest differs";
  return {};
}

// Under a name of this thread's own first, so that writers of one key do not meet.
void write_entry(const fs::path& path, std::string_view bytes) {
  fs::path temporary = path;
  temporary += fmt::format(".tmp-{}-{}", ::getpid(), ::gettid());
  {
    FileWriter writer(temporary);
    writer.write(bytes);
    writer.commit();
  }
  std::error_code ec;
  fs::rename(temporary, path, ec);
  if (!ec) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  fail({.id = "runtime.cache_rename",
        .where = path.string(),
        .expected = "an entry that can be put in its place",
        .got = ec.message(),
        .code = Code::unavailable});
}

struct Entry {
  fs::path path;
  uint64_t size = 0;
  fs::file_time_type used;
};

std::vector<Entry> entries_of(const fs::path& directory) {
  std::vector<Entry> entries;
  std::error_code ec;
  for (const auto& file : fs::directory_iterator(directory, ec)) {
    // Names that other processes are still writing to end in something else; they count too, so
    // that what a killed process left goes in its turn.
    if (file.path().filename().string().find(kSuffix) == std::string::npos) continue;
    std::error_code gone;
    Entry entry{.path = file.path(), .size = file.file_size(gone), .used = {}};
    if (!gone) entry.used = file.last_write_time(gone);
    if (!gone) entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

fs::path default_cache_dir() {
  if (std::string dir = environment("STRATA_CACHE"); !dir.empty()) return dir;
  if (std::string dir = environment("XDG_CACHE_HOME"); !dir.empty())
    return fs::path(dir) / "strata";
  if (std::string dir = environment("HOME"); !dir.empty()) return fs::path(dir) / ".cache/strata";
  return {};
}

DiskCache::DiskCache(fs::path directory, uint64_t limit)
    : directory_(std::move(directory)), limit_(limit) {}

fs::path DiskCache::path_of(const std::string& key) const {
  return directory_ / (key + std::string(kSuffix));
}

std::optional<std::string> DiskCache::load(const std::string& key) {
  if (directory_.empty()) return std::nullopt;
  fs::path path = path_of(key);
  std::string bytes;
  try {
    bytes = read_file(path);
  } catch (const Error& e) {
    if (e.code() != Code::not_found) log_line("compile cache: " + e.message());
    return std::nullopt;
  }
  std::string wrong = damage(bytes);
  if (!wrong.empty()) {
    log_line(
        fmt::format("compile cache: {} is damaged ({}); compiling again", path.string(), wrong));
    remove(key);
    return std::nullopt;
  }
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return bytes.substr(kHeaderSize);
}

bool DiskCache::store(const std::string& key, std::string_view payload) {
  if (directory_.empty() || !storing_ || payload.size() > limit_) return false;
  std::string bytes(kMagic);
  bytes += sha256(payload);
  bytes += encode_length(payload.size());
  bytes += payload;
  try {
    std::error_code ec;
    fs::create_directories(directory_, ec);
    write_entry(path_of(key), bytes);
  } catch (const Error& e) {
    storing_ = false;
    log_line("compile cache: not kept: " + e.message());
    return false;
  }
  evict(path_of(key));
  return true;
}

void DiskCache::remove(const std::string& key) {
  std::error_code ec;
  fs::remove(path_of(key), ec);
}

void DiskCache::evict(const fs::path& newest) {
  std::vector<Entry> entries = entries_of(directory_);
  uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.size;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_) return;
    if (entry.path == newest) continue;
    std::error_code ec;
    fs::remove(entry.path, ec);
    total -= entry.size;
  }
}

}  // namespace strata::runtime
